//! `weir`: the command line is the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    weir::main()
}
