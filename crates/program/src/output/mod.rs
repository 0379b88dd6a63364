//! Standard output and standard error, which may be closed (`weir ... | head`) or full.

mod sys;

use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use weir_units::format::shown;

/// Prints a line, as `println!` does, but does not panic.
#[macro_export]
#[doc(hidden)]
macro_rules! __say {
    ($($words:tt)*) => { $crate::output::print(format_args!("{}\n", format_args!($($words)*))) };
}

pub use __say as say;

/// Prints a line on standard error, as `eprintln!` does, but neither panics nor waits for a blocked reader.
#[macro_export]
#[doc(hidden)]
macro_rules! __complain {
    ($($words:tt)*) => { $crate::output::tell(format_args!("{}\n", format_args!($($words)*))) };
}

pub use __complain as complain;

/// Prints unchanged. A closed reader is not an error; other failures (a full disk, a closed terminal) are reported
/// once. The work continues, so that its result is not lost; see [`failed`].
pub fn print(words: fmt::Arguments<'_>) {
    if sys::was_closed() {
        if !FAILED.swap(true, Ordering::Relaxed) {
            complain!("weir: write to standard output: it is closed");
        }
        return;
    }
    let mut output = io::stdout().lock();
    match output.write_fmt(words).and_then(|()| output.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe && !FAILED.swap(true, Ordering::Relaxed) => {
            complain!("weir: write to standard output: {error}");
        }
        _ => {}
    }
}

/// An error and its causes, outermost first. Many errors include the kernel's answer before their hint: then it is not
/// repeated. Text from files or peers can neither begin a line nor control a terminal.
pub fn in_one_line(error: &anyhow::Error) -> String {
    let said = error.chain().map(ToString::to_string).fold(String::new(), |said, cause| {
        let answer = cause.split(" (os error ").next().unwrap_or_default();
        match said.as_str() {
            "" => cause,
            known if known.to_lowercase().contains(&answer.to_lowercase()) => said,
            known => format!("{known}: {cause}"),
        }
    });
    shown(&said).into_owned()
}

/// Whether something could not be printed: the process must end with status 1 then.
pub fn failed() -> bool {
    FAILED.load(Ordering::Relaxed)
}

/// Prints on standard error unchanged. Failures are ignored: the work continues.
pub fn tell(words: fmt::Arguments<'_>) {
    let _ = write_patiently(&mut io::stderr().lock(), words.to_string().as_bytes(), PATIENCE);
}

/// Prints a line on standard output, for programs that must not wait for a blocked reader.
///
/// # Errors
/// It is full, or was not read for a second: the line may be written in part.
pub fn print_patiently(line: &str) -> io::Result<()> {
    let held = io::stdout().lock();
    // Bypasses the buffer of the standard library, which would block.
    let mut output = File::from(held.as_fd().try_clone_to_owned()?);
    match write_patiently(&mut output, format!("{line}\n").as_bytes(), PATIENCE) {
        // A closed reader is not an error.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// Writes until something fails or is not read for this long.
fn write_patiently(output: &mut (impl Write + AsFd), bytes: &[u8], patience: u16) -> io::Result<()> {
    // A pipe that is ready accepts at least this many bytes (pipe(7)), and a write of no more does not block.
    for piece in bytes.chunks(PIPE_BUF) {
        if poll(&mut [PollFd::new(output.as_fd(), PollFlags::POLLOUT)], PollTimeout::from(patience))? == 0 {
            return Err(io::Error::new(ErrorKind::TimedOut, "nothing reads it"));
        }
        output.write_all(piece)?;
    }
    Ok(())
}

static FAILED: AtomicBool = AtomicBool::new(false);

/// POSIX's and Linux' number (include/uapi/linux/limits.h).
const PIPE_BUF: usize = 4096;

/// Max time without reading standard error, milliseconds.
const PATIENCE: u16 = 1000;

#[cfg(test)]
mod tests {
    use std::io::{PipeWriter, Read, pipe};
    use std::thread;

    use anyhow::anyhow;
    use nix::fcntl::{FcntlArg, fcntl};

    use super::*;

    fn tell_a_pipe(writer: &mut PipeWriter, bytes: usize, patience_ms: u16) {
        let _ = write_patiently(writer, &vec![b'x'; bytes], patience_ms);
    }

    #[test]
    fn nobody_waits_for_a_pipe_that_is_not_read() {
        let (mut reader, mut writer) = pipe().unwrap();
        let holds = fcntl(&writer, FcntlArg::F_GETPIPE_SZ).unwrap();
        tell_a_pipe(&mut writer, 1 << 20, 50);
        tell_a_pipe(&mut writer, 1, 50);
        drop(writer);
        // As much as a pipe holds has come, and no more.
        assert_eq!(reader.read_to_end(&mut Vec::new()).unwrap(), holds as usize);
    }

    #[test]
    fn all_of_it_comes_where_somebody_reads() {
        let (mut reader, mut writer) = pipe().unwrap();
        let read = thread::spawn(move || reader.read_to_end(&mut Vec::new()).unwrap());
        tell_a_pipe(&mut writer, 1 << 20, 20_000);
        drop(writer);
        assert_eq!(read.join().unwrap(), 1 << 20);
        let (reader, mut writer) = pipe().unwrap();
        drop(reader);
        tell_a_pipe(&mut writer, 10, 20_000);
    }

    #[test]
    fn the_kernels_answer_is_told_once() {
        let answer = || io::Error::from_raw_os_error(nix::libc::EADDRNOTAVAIL);
        let told = anyhow!(answer()).context("bind 192.0.2.7:5: cannot assign requested address (listen on 0.0.0.0)");
        assert_eq!(
            in_one_line(&told.context("cell 5%")),
            "cell 5%: bind 192.0.2.7:5: cannot assign requested address (listen on 0.0.0.0)"
        );
        let untold = anyhow!(answer()).context("bind 192.0.2.7:5");
        assert_eq!(in_one_line(&untold), format!("bind 192.0.2.7:5: {}", answer()));
        assert_eq!(in_one_line(&anyhow!("unknown `a\nb\u{1b}[2J`")), "unknown `a\\nb\\u{1b}[2J`");
    }
}
