//! What became of effects that nobody was told of.

mod bank;
mod crash;
mod judged;
mod pace;
mod people;
