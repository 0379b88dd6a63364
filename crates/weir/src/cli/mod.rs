//! The command line: flags, then validated settings, then a room.

/// Runs the command line and returns the exit status.
pub fn main() -> std::process::ExitCode {
    std::process::ExitCode::SUCCESS
}
