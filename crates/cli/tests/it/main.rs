//! The binary, as people and hosts use it.

mod config;
mod demo;
mod pages;
mod probe;
mod run;
mod serve;
mod support;
