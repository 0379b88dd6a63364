//! Standard output and standard error, which may be closed (`weir ... | head`) or full.

use std::fmt;
use std::io::{self, ErrorKind, Write};
use std::process;

/// Prints a line, as `println!` does, but does not panic.
macro_rules! say {
    ($($words:tt)*) => { $crate::service::output::print(format_args!("{}\n", format_args!($($words)*))) };
}

pub(crate) use say;

/// Prints a line on standard error, as `eprintln!` does, but does not panic: where nobody can be told, the work goes on.
macro_rules! complain {
    ($($words:tt)*) => {{
        use std::io::Write;
        let _ = writeln!(std::io::stderr(), $($words)*);
    }};
}

pub(crate) use complain;

/// Prints as it is. A reader that has gone has read enough; what cannot be written for another reason ends the process
/// with status 1.
pub fn print(words: fmt::Arguments<'_>) {
    let mut output = io::stdout().lock();
    match output.write_fmt(words).and_then(|()| output.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            complain!("weir: write to standard output: {error}");
            process::exit(1);
        }
        _ => {}
    }
}
