//! The `weir` command.

fn main() -> std::process::ExitCode {
    weir::cli::main()
}
