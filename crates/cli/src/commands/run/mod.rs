//! `run`: one server behind the gateway, over our own stdin and stdout: what a host starts in the place of the server's
//! own command.
//!
//! - `pipe`: the usual way, through the user's keeper
//! - `foreground`: everything in this process

mod foreground;
mod pipe;

use crate::args::Run;
use crate::environment::Environment;
use crate::failure::Failure;
use crate::hosts;
use crate::ui::Ui;

pub(crate) fn main(args: &Run, environment: &Environment, ui: Ui) -> Result<(), Failure> {
    if let Some(host) = args.print_config {
        return hosts::print_config(host, args.name.as_deref(), &args.command, environment, ui);
    }
    if args.foreground { foreground::main(args, environment, ui) } else { pipe::main(args, environment, ui) }
}
