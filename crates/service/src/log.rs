//! The log on standard error: control threads write it, the data plane never does.
//!
//! A line waits in a bounded queue for a thread that writes; a full disk, a closed or a stuck pipe costs lines, which are
//! counted ([`lost`]), and nothing else.
//!
//! The queue of tracing-appender counts lines for which there was no room, but not those that could not be written, which
//! it drops without a word; and nobody can look into it or hold it back while a screen has the terminal.

use std::collections::VecDeque;
use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use nix::sys::stat::fstat;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::{self, Compact, Format, Writer};
use tracing_subscriber::fmt::time::SystemTime;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, MakeWriter};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;

/// The log, from [`start`] on. Dropping it waits, a second at most, until what was said is written.
#[derive(Debug)]
#[must_use = "what was logged last is lost unless this is dropped at the end"]
pub struct Log {
    lines: Arc<Lines>,
}

/// Sends what `tracing` macros of this program say to standard error: from INFO on, with `verbosity` 1 (`-v`) from DEBUG
/// on, with more everything. Of libraries only warnings are told. Lines have the time in UTC; for systemd's journal they
/// have a priority instead (sd-daemon(3)).
///
/// # Errors
/// If the thread that writes cannot be started, or the log has been started before.
pub fn start(verbosity: u8) -> io::Result<Log> {
    let stderr = File::from(io::stderr().as_fd().try_clone_to_owned()?);
    let for_journal = is_journal(&stderr);
    let lines = Lines::start(stderr, &LOST)?;
    let level = match verbosity {
        0 => Level::INFO,
        1 => Level::DEBUG,
        _ => Level::TRACE,
    };
    let filter = Targets::new().with_default(Level::WARN).with_target("weir", level);
    let subscriber = tracing_subscriber::registry().with(filter).with(layer(Queue(lines.clone()), for_journal));
    tracing::subscriber::set_global_default(subscriber).map_err(io::Error::other)?;
    STARTED.set(lines.clone()).map_err(|_| io::Error::other("the log has been started before"))?;
    Ok(Log { lines })
}

/// Keeps lines back while this lives, for a live screen on the same terminal, and writes them when it is dropped.
#[derive(Debug)]
pub struct Hold(Option<Arc<Lines>>);

/// Holds the log. Where more lines come than can wait, the oldest are lost (and counted). Without a log it does nothing.
pub fn hold() -> Hold {
    let lines = STARTED.get().cloned();
    if let Some(lines) = &lines {
        lines.set_held(true);
    }
    Hold(lines)
}

impl Hold {
    /// The last lines that are held, at most `most`, oldest first, without their line breaks.
    pub fn last(&self, most: usize) -> Vec<String> {
        self.0.as_ref().map(|lines| lines.last(most)).unwrap_or_default()
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if let Some(lines) = &self.0 {
            lines.set_held(false);
        }
    }
}

static STARTED: OnceLock<Arc<Lines>> = OnceLock::new();

/// Log lines of this process that standard error did not take.
pub fn lost() -> u64 {
    LOST.load(Ordering::Relaxed)
}

static LOST: AtomicU64 = AtomicU64::new(0);

impl Drop for Log {
    fn drop(&mut self) {
        self.lines.await_written(FAREWELL);
    }
}

fn layer<S>(queue: Queue, for_journal: bool) -> impl tracing_subscriber::Layer<S>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let layer = tracing_subscriber::fmt::layer().with_writer(queue).with_ansi(false).log_internal_errors(false);
    layer.event_format(Style { for_journal, plain: format::format().compact().with_target(false) })
}

/// Whether standard error leads to the journal ($JOURNAL_STREAM, systemd.exec(5)).
fn is_journal(stderr: &File) -> bool {
    let Ok(stream) = std::env::var("JOURNAL_STREAM") else { return false };
    fstat(stderr).is_ok_and(|stat| stream == format!("{}:{}", stat.st_dev, stat.st_ino))
}

struct Style {
    for_journal: bool,
    plain: Format<Compact, SystemTime>,
}

impl<S, N> FormatEvent<S, N> for Style
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        if !self.for_journal {
            return self.plain.format_event(context, writer, event);
        }
        let priority = match *event.metadata().level() {
            Level::ERROR => 3,
            Level::WARN => 4,
            Level::INFO => 6,
            Level::DEBUG | Level::TRACE => 7,
        };
        write!(writer, "<{priority}>")?;
        context.format_fields(writer.by_ref(), event)?;
        writeln!(writer)
    }
}

/// Lines on their way to a file that may not take them.
#[derive(Debug)]
struct Lines {
    waiting: Mutex<Waiting>,
    /// Something came, or was written.
    changed: Condvar,
    lost: &'static AtomicU64,
}

#[derive(Debug, Default)]
struct Waiting {
    lines: VecDeque<Vec<u8>>,
    /// A line has left the queue and is not in the file yet.
    writing: bool,
    /// Nothing is to leave the queue.
    held: bool,
}

impl Lines {
    /// Starts the thread that writes. It ends with the process.
    fn start(file: impl Write + Send + 'static, lost: &'static AtomicU64) -> io::Result<Arc<Self>> {
        let lines = Arc::new(Self { waiting: Mutex::default(), changed: Condvar::new(), lost });
        let source = lines.clone();
        thread::Builder::new().name("log".into()).spawn(move || source.write_to(file))?;
        Ok(lines)
    }

    fn push(&self, line: &[u8]) {
        let mut waiting = self.lock();
        if waiting.lines.len() == MOST_WAITING {
            self.lost.fetch_add(1, Ordering::Relaxed);
            // A screen shows the newest; a pipe that moves again wants to know how it began.
            if !waiting.held {
                return;
            }
            waiting.lines.pop_front();
        }
        waiting.lines.push_back(line.to_vec());
        self.changed.notify_all();
    }

    fn set_held(&self, held: bool) {
        self.lock().held = held;
        self.changed.notify_all();
    }

    fn last(&self, most: usize) -> Vec<String> {
        let waiting = self.lock();
        let first = waiting.lines.len().saturating_sub(most);
        let text = |line: &Vec<u8>| String::from_utf8_lossy(line).trim_end().to_owned();
        waiting.lines.range(first..).map(text).collect()
    }

    fn write_to(&self, mut file: impl Write) {
        let mut told = 0;
        loop {
            let mut waiting = self.lock();
            waiting.writing = false;
            self.changed.notify_all();
            let line = loop {
                if !waiting.held
                    && let Some(line) = waiting.lines.pop_front()
                {
                    break line;
                }
                waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
            };
            waiting.writing = true;
            drop(waiting);
            if file.write_all(&line).is_err() {
                self.lost.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            let lost = self.lost.load(Ordering::Relaxed);
            if lost > told && writeln!(file, "weir: {} log lines were lost before this", lost - told).is_ok() {
                told = lost;
            }
        }
    }

    /// Until all that was pushed before is written or lost, or the time is over.
    fn await_written(&self, patience: Duration) {
        let pending = |waiting: &mut Waiting| waiting.writing || !waiting.lines.is_empty();
        let _ = self.changed.wait_timeout_while(self.lock(), patience, pending);
    }

    /// A thread that panicked while it held the lock left nothing half done.
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes writers of one line each.
struct Queue(Arc<Lines>);

impl<'a> MakeWriter<'a> for Queue {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line(&self.0)
    }
}

/// Takes one event, which the formatter writes at once.
struct Line<'a>(&'a Lines);

impl Write for Line<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.push(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Lines that wait at most.
const MOST_WAITING: usize = 1024;

/// How long the end of the program waits for its last lines.
const FAREWELL: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::sync::mpsc;

    use super::*;

    fn counter() -> &'static AtomicU64 {
        Box::leak(Box::default())
    }

    /// What a control thread says through `lines`.
    fn say(lines: &Arc<Lines>, for_journal: bool, what: impl FnOnce()) {
        let subscriber = tracing_subscriber::registry().with(layer(Queue(lines.clone()), for_journal));
        tracing::subscriber::with_default(subscriber, what);
    }

    #[test]
    fn events_become_lines() {
        let (mut reader, writer) = io::pipe().unwrap();
        let lines = Lines::start(writer, counter()).unwrap();
        say(&lines, false, || tracing::warn!("destination {} is slow", "siem"));
        say(&lines, true, || tracing::warn!("destination {} is slow", "siem"));
        say(&lines, true, || tracing::info!("reloaded"));
        let mut text = String::new();
        let mut bytes = [0; 1024];
        while text.lines().count() < 3 {
            let length = reader.read(&mut bytes).unwrap();
            text.push_str(std::str::from_utf8(&bytes[..length]).unwrap());
        }
        let (first, rest) = text.split_once('\n').unwrap();
        let (time, message) = first.split_once(' ').unwrap();
        assert!(time.starts_with("20") && time.ends_with('Z'), "{first}");
        assert_eq!(message.trim_start(), "WARN destination siem is slow");
        assert_eq!(rest, "<4>destination siem is slow\n<6>reloaded\n");
    }

    #[test]
    fn a_stuck_pipe_costs_lines_alone_and_they_are_counted() {
        let (mut reader, writer) = io::pipe().unwrap();
        let lost = counter();
        let lines = Lines::start(writer, lost).unwrap();
        // A pipe takes 64 KiB: of these it can only take the first hundred.
        let said = MOST_WAITING as u64 + 500;
        for number in 0..said {
            lines.push(format!("{number:>999}\n").as_bytes());
        }
        assert!((300..=500).contains(&lost.load(Ordering::Relaxed)), "{lost:?}");
        // Nobody reads: waiting ends all the same.
        lines.await_written(Duration::from_millis(1));

        let read = thread::spawn(move || {
            let mut text = Vec::new();
            let mut bytes = [0; 65_536];
            while !text.ends_with(b"last\n") {
                let length = reader.read(&mut bytes).unwrap();
                text.extend_from_slice(&bytes[..length]);
            }
            String::from_utf8(text).unwrap()
        });
        lines.await_written(Duration::from_secs(20));
        lines.push(b"last\n");
        let text = read.join().unwrap();
        let lost = lost.load(Ordering::Relaxed);
        // Once or twice: the writer may have found room between two losses.
        let notes: Vec<u64> = text.lines().filter_map(lost_before).collect();
        assert_eq!(notes.iter().sum::<u64>(), lost, "{notes:?}");
        // Every line was either written or counted.
        assert_eq!((text.lines().count() - notes.len()) as u64 + lost, said + 1);
    }

    /// How many lines a note of the writer says were lost.
    fn lost_before(line: &str) -> Option<u64> {
        line.strip_prefix("weir: ")?.strip_suffix(" log lines were lost before this")?.parse().ok()
    }

    #[test]
    fn lines_are_held_back_for_a_screen_and_written_after_it() {
        let (mut reader, writer) = io::pipe().unwrap();
        let lines = Lines::start(writer, counter()).unwrap();
        lines.set_held(true);
        let hold = Hold(Some(lines.clone()));
        for number in 0..MOST_WAITING + 2 {
            lines.push(format!("{number}\n").as_bytes());
        }
        assert_eq!(hold.last(2), ["1024", "1025"]);
        drop(hold);
        // The two oldest had to go; the writer says so after its first line.
        let mut text = String::new();
        let mut bytes = [0; 65_536];
        while !text.ends_with("1025\n") {
            let length = reader.read(&mut bytes).unwrap();
            text.push_str(std::str::from_utf8(&bytes[..length]).unwrap());
        }
        assert!(text.starts_with("2\nweir: 2 log lines were lost before this\n3\n"), "{}", &text[..100]);
        assert_eq!(text.lines().count(), MOST_WAITING + 1);
    }

    #[test]
    fn a_full_disk_costs_lines_alone() {
        struct Full(mpsc::Receiver<()>);
        impl Write for Full {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                // Full until told otherwise.
                match self.0.try_recv() {
                    Ok(()) => Ok(bytes.len()),
                    Err(_) => Err(io::ErrorKind::StorageFull.into()),
                }
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let lost = counter();
        let (room, full) = mpsc::channel();
        let lines = Lines::start(Full(full), lost).unwrap();
        say(&lines, false, || (0..5).for_each(|number| tracing::error!(number, "no room")));
        lines.await_written(Duration::from_secs(20));
        assert_eq!(lost.load(Ordering::Relaxed), 5);
        room.send(()).unwrap();
        say(&lines, false, || tracing::error!("room"));
        lines.await_written(Duration::from_secs(20));
        assert_eq!(lost.load(Ordering::Relaxed), 5);
    }
}
