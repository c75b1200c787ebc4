//! Every decision taskgate takes, and none of its effects.
//!
//! Nothing here reads a clock, draws a random number, waits or does IO: `now` and ids are handed in, and what
//! should happen is handed back as values. The compiler holds most of that, since the crate is `no_std`.
//!
//! - [`task`]: the protocol record's states, and what each command does to them (R3.1)
//! - [`operation`]: the domain operation, its attempt and what is known of its outcome (R4)
//! - [`recovery`]: what to do about work found unfinished after a crash
//! - [`gate`]: which way a call goes, with reasons (R2)
//! - [`poll`]: when to look again (R5.1)
//! - [`written`]: what became of a write that the store answered by an error
//! - [`budget`]: how much time and how many tries each kind of exchange has (R5.4)

#![no_std]

extern crate alloc;

pub mod budget;
pub mod gate;
pub mod id;
pub mod operation;
pub mod poll;
pub mod recovery;
pub mod task;
pub mod time;
pub mod written;
