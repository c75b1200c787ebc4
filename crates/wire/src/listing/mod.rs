//! Lists: what a back sends, as each client may see it.

mod cache;
mod tools;

pub use cache::{Cache, for_front};
pub use tools::{Rewrite, Tool, read_tools, rewrite_tools, support_word};
