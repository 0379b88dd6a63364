//! `weir` of `make run`, the lab alone: under another name it never takes the place of a whole `weir`.

use std::process::ExitCode;

fn main() -> ExitCode {
    weir::main()
}
