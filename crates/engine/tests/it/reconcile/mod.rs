//! What became of effects that nobody was told of.

mod bank;
mod crash;
mod farewell;
mod judged;
mod pace;
mod people;
