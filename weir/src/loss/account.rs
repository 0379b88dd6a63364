//! `weir loss account`.

use std::collections::BTreeSet;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{IsTerminal, Write, stderr};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use nix::errno::Errno;
use weir_kernel::namespaces::attended::Attended;
use weir_loss::account::book::Account as Book;
use weir_loss::account::{
    EACH, FollowOptions, Following, ReceivedSession, SentSession, Sessions, before_the_session, join,
};
use weir_loss::statement;
use weir_loss::subject::{Process, TrafficFilter};
use weir_program::output::{complain, say, tell};
use weir_program::stop::Stop;
use weir_trace::{Extras, Prefixes, Trace};
use weir_units::Span;
use weir_units::format::{shown, shown_in_json};

use super::{Tracing, group, namespaces};
use crate::{Outcome, files, usage};

/// `weir loss account`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir loss account --port 5000
  weir loss account --port 5000 --netns all --duration 1m --json
  weir loss account --group 239.1.1.1 --port 5000 --received recv.json
  weir loss account --process rsyslogd
  weir loss account --join sender.json receiver.json
  weir loss account -- dig @192.0.2.1 example.org

Follows UDP traffic until the duration is over or Ctrl-C, and then says where every datagram is:
received, lost at which place and why, or pending. It sees the most as root (eBPF); without, it tells
what the counters tell and what is then unknown. --netns all follows both ends of an emulated network.
With a command it follows its sockets, those of its children included, and ends as it does.")]
pub(super) struct Account {
    /// Port that the datagrams go to; may be repeated.
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: Vec<u16>,
    /// Multicast group; may be repeated.
    #[arg(long, value_name = "ADDR", value_parser = group)]
    group: Vec<IpAddr>,
    /// Receiving socket, by the address it is bound to; may be repeated.
    #[arg(long, value_name = "ADDR:PORT")]
    socket: Vec<SocketAddr>,
    /// Program, by number or name: all its sockets.
    #[arg(long, value_name = "PID|NAME")]
    process: Option<Process>,
    /// Network namespace, by name, process or path, or `all`; may be repeated [default: its own].
    #[arg(long, value_name = "NAME|PID|PATH")]
    netns: Vec<String>,
    /// How long to follow.
    #[arg(long, value_name = "SPAN", default_value = "10s", allow_hyphen_values = true, conflicts_with = "command")]
    duration: Span,
    /// How much to trace by eBPF [default: everything that is permitted].
    #[arg(long, value_enum, default_value = "everything", hide_default_value = true)]
    trace: Tracing,
    /// Tell whose datagrams were lost: by address, or by network, with the bits of IPv4 and of IPv6 addresses that
    /// count [source/32/128; source/24 is source/24/64].
    #[arg(long, value_name = "source[/BITS[/BITS]]", value_parser = by_source)]
    by: Option<Prefixes>,
    /// Write the first packets that were dropped at each place to this file (pcapng), the reason as their comments.
    #[arg(long, value_name = "FILE")]
    samples: Option<PathBuf>,
    /// How many of each place.
    #[arg(long, value_name = "N", default_value_t = 16, requires = "samples",
        value_parser = clap::value_parser!(u32).range(1..=1000))]
    samples_each: u32,
    /// What `weir send --json` printed: closes the ledger with its sequence numbers. Read at the end.
    #[arg(long, value_name = "FILE")]
    sent: Option<PathBuf>,
    /// What `weir recv --json` printed.
    #[arg(long, value_name = "FILE")]
    received: Option<PathBuf>,
    /// Join the accounts (--json) of two hosts, the sender's and the receiver's, and follow nothing.
    #[arg(long, num_args = 2, value_names = ["SENDER", "RECEIVER"],
        conflicts_with_all = ["port", "group", "socket", "process", "netns", "sent", "received", "by", "samples"])]
    join: Vec<PathBuf>,
    /// Print the account as one JSON object.
    #[arg(long)]
    json: bool,
    /// Write the account to this file [default: standard output; with a command, whose output that is, standard error].
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Command to run and to follow, with its arguments, behind `--`: the exit status is its own.
    #[arg(last = true, value_name = "COMMAND", conflicts_with_all = ["port", "group", "socket", "process", "join"])]
    command: Vec<OsString>,
}

impl Account {
    pub(super) fn run(self) -> Result<Outcome> {
        usage(self.check(env::args_os().last().as_deref()))?;
        let output = usage(self.output.as_deref().map(NewFile::create).transpose())?;
        if let [sender, receiver] = &self.join[..] {
            let book = usage(join::files(sender, receiver))?;
            self.print(&book, output)?;
            return Ok(Outcome::Done);
        }
        for (file, is_sender) in [(&self.sent, true), (&self.received, false)] {
            if let Some(path) = file
                && let Some(warning) = usage(before_the_session(path, is_sender))?
            {
                complain!("weir: {}", shown(&warning));
            }
        }
        let samples = usage(self.samples.as_deref().map(NewFile::create).transpose())?;
        let mut following;
        let mut outcome = Outcome::Done;
        if let [name, arguments @ ..] = &self.command[..] {
            following = self.start()?;
            match self.attend(&mut following, name, arguments)? {
                Ok(status) => outcome = Outcome::Program(status),
                Err(status) => return Ok(Outcome::Program(status)),
            }
        } else {
            let stop = Stop::on_signals().context("watch for Ctrl-C")?;
            following = self.start()?;
            self.follow(&mut following, &stop);
        }
        let (sessions, missing) = self.sessions();
        let mut book = following.close(&sessions);
        book.warnings.extend(missing);
        self.print(&book, output)?;
        if let Some(file) = samples {
            let capture = following.samples()?;
            file.write(&capture.file)?;
            let path = file.path.display();
            complain!("weir: {} of {} dropped packets are in {path}", capture.samples, capture.of);
        }
        Ok(outcome)
    }

    /// `last`: the last word of the command line, of which the parser does not tell whether it was `--`.
    fn check(&self, last: Option<&OsStr>) -> Result<()> {
        let without = self.command.is_empty() && last.is_some_and(|last| last == "--");
        ensure!(!without, "--: with no command behind it: write e.g. `-- dig example.org`");
        ensure!(self.duration != Span::default(), "--duration 0: nothing could be followed: write e.g. 10s");
        namespaces(&self.netns)?;
        Ok(())
    }

    fn start(&self) -> Result<Following> {
        let following = Following::start(&self.options()?)?;
        following.warnings().iter().for_each(|warning| complain!("weir: {}", shown(warning)));
        Ok(following)
    }

    /// Follows until the time is over, or the stop.
    fn follow(&self, following: &mut Following, stop: &Stop) {
        complain!("following {}", shown(&following.in_words()));
        let live = stderr().is_terminal();
        let mut shown = Instant::now();
        following.watch(Instant::now() + self.duration.duration(), stop, |trace, elapsed| {
            if live && shown.elapsed() >= Duration::from_millis(500) {
                shown = Instant::now();
                tell(format_args!("\r\x1b[K{}", status(trace, elapsed)));
            }
        });
        if live {
            tell(format_args!("\r\x1b[K"));
        }
    }

    /// Runs the command to its end, and returns its exit status; `Err`: that of one that cannot be run.
    fn attend(&self, following: &mut Following, name: &OsStr, arguments: &[OsString]) -> Result<Result<u8, u8>> {
        let mut command = match Attended::start(name, arguments) {
            Ok(command) => command,
            Err(error) => {
                let Some((status, why)) = error.errno().and_then(as_in_a_shell) else { return Err(error.into()) };
                complain!("weir: run {}: {why}", shown(&name.to_string_lossy()));
                return Ok(Err(status));
            }
        };
        let name = Path::new(name).file_name().unwrap_or(name).to_string_lossy().into_owned();
        following.command(command.pid(), &name);
        loop {
            if let Some(status) = command.wait(EACH)? {
                return Ok(Ok(u8::try_from(status).unwrap_or(u8::MAX)));
            }
            following.look();
        }
    }

    fn options(&self) -> Result<FollowOptions> {
        Ok(FollowOptions {
            filter: TrafficFilter {
                ports: self.port.iter().copied().collect(),
                groups: self.group.clone(),
                sockets: self.socket.clone(),
                process: match &self.command[..] {
                    [] => self.process.clone(),
                    _ => Some(Process::Command(BTreeSet::new())),
                },
            },
            namespaces: namespaces(&self.netns)?,
            trace: self.trace.detail(),
            extras: Extras {
                by_source: self.by,
                samples: if self.samples.is_some() { self.samples_each } else { 0 },
                descendants: !self.command.is_empty(),
            },
        })
    }

    /// What the sessions told, and why one did not.
    fn sessions(&self) -> (Sessions, Vec<String>) {
        let mut missing = Vec::new();
        let mut told = |error: anyhow::Error| missing.push(format!("{error:#}"));
        let sent = self.sent.as_deref().and_then(|path| SentSession::read(path).map_err(&mut told).ok());
        let received = self.received.as_deref().and_then(|path| ReceivedSession::read(path).map_err(&mut told).ok());
        (Sessions { sent, received }, missing)
    }

    fn print(&self, book: &Book, output: Option<NewFile<'_>>) -> Result<()> {
        let text = if self.json {
            shown_in_json(&serde_json::to_string(book)?).into_owned()
        } else {
            statement::of(book).trim_end().to_owned()
        };
        match output {
            Some(file) => file.write(format!("{text}\n").as_bytes())?,
            None if self.command.is_empty() => say!("{text}"),
            None => complain!("{text}"),
        }
        if book.ledgers.is_empty() && !self.join.is_empty() {
            bail!("join: the two accounts have no port in common");
        }
        Ok(())
    }
}

/// The exit status of shells for a program that cannot be run, and why (POSIX, 2.8.2); `None`: it is not the program's fault.
fn as_in_a_shell(errno: Errno) -> Option<(u8, String)> {
    match errno {
        Errno::ENOENT => Some((127, "no such program".to_owned())),
        Errno::EACCES => Some((126, "not executable (a program? `chmod +x`)".to_owned())),
        Errno::ENOEXEC => Some((126, "not executable (no program for this machine)".to_owned())),
        Errno::ENOTDIR | Errno::ELOOP | Errno::ENAMETOOLONG | Errno::ETXTBSY | Errno::E2BIG | Errno::ELIBBAD => {
            Some((126, errno.desc().to_lowercase()))
        }
        _ => None,
    }
}

/// A file that is to be written, opened before anything is followed for it.
struct NewFile<'a> {
    path: &'a Path,
    file: File,
}

impl NewFile<'_> {
    fn create(path: &Path) -> Result<NewFile<'_>> {
        let file = files::create(path).with_context(|| format!("write {}", path.display()))?;
        Ok(NewFile { path, file })
    }

    fn write(&self, bytes: &[u8]) -> Result<()> {
        (&self.file).write_all(bytes).with_context(|| format!("write {}", self.path.display()))
    }
}

/// `source`, `source/24`, `source/24/48`.
fn by_source(text: &str) -> Result<Prefixes, String> {
    let wrong = || format!("`{text}`: write source, source/24 or source/24/48 (bits of IPv4 and IPv6 addresses)");
    if text.split('/').next() != Some("source") {
        return Err(wrong());
    }
    let bits: Vec<u8> = text.split('/').skip(1).map(str::parse).collect::<Result<_, _>>().map_err(|_| wrong())?;
    let prefixes = match bits[..] {
        [] => Prefixes::ADDRESSES,
        [v4] => Prefixes { v4, v6: 64 },
        [v4, v6] => Prefixes { v4, v6 },
        _ => return Err(wrong()),
    };
    if prefixes.v4 > 32 || prefixes.v6 > 128 { Err(wrong()) } else { Ok(prefixes) }
}

/// One line while it goes on.
fn status(trace: &Trace, elapsed: Duration) -> String {
    let arrived: u64 = trace.arrivals.iter().map(|passage| passage.datagrams).sum();
    let read: u64 = trace.sockets.iter().map(|socket| socket.read_datagrams.unwrap_or(socket.reads)).sum();
    let dropped: u64 = trace.drops.iter().map(|drop| drop.datagrams).sum();
    format!("{:4.1} s  arrived {arrived}  read {read}  dropped {dropped}", elapsed.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use weir_loss::watch::settings::Where;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        account: Account,
    }

    fn account(arguments: &str) -> Result<Account, String> {
        let words = std::iter::once("account").chain(arguments.split_whitespace());
        Command::try_parse_from(words).map(|command| command.account).map_err(|error| error.to_string())
    }

    #[test]
    fn no_link_leads_what_is_written_elsewhere() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        std::fs::write(&file, "somebody's").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let refused = NewFile::create(&link).err().map(|error| format!("{error:#}"));
        let why = format!("write {}: a symbolic link. Name the file itself.", link.display());
        assert_eq!((refused, std::fs::read_to_string(&file).unwrap()), (Some(why), "somebody's".to_owned()));
        NewFile::create(&file).unwrap().write(b"ours").unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "ours");
        assert!(NewFile::create(Path::new("/dev/stderr")).is_ok());
    }

    #[test]
    fn mistakes_are_usage_errors() {
        for arguments in [
            "--port 0",
            "--port 70000",
            "--group 10.0.0.1",
            "--trace all",
            "--join a",
            "--join a b --port 5",
            "--port 5 -- x",
            "--duration 1s -- x",
            "--by port",
            "--by source/33",
            "--by source/8/8/8",
        ] {
            assert!(account(arguments).is_err(), "{arguments}");
        }
        let refused = |arguments: &str| {
            let last = arguments.split_whitespace().last().map(OsStr::new);
            account(arguments).unwrap().check(last).is_err()
        };
        assert_eq!(["--", "--port 5 --", "--duration 0s", "--netns all --netns x"].map(refused), [true; 4]);
        // Its value is told, and not that there is no flag `-1`.
        let backwards = account("--duration -1s").err().unwrap_or_default();
        assert!(backwards.contains("'-1s' for '--duration"), "{backwards}");
        assert_eq!(["", "--port 5", "-- x", "-- x --"].map(refused), [false; 4]);
        let options = account("--port 5 --port 6 --process weir --netns all --trace off").unwrap().options().unwrap();
        assert_eq!(options.filter.ports, [5, 6].into());
        assert_eq!((options.trace, options.namespaces), (None, Where::All));
        let by = |flag: &str| account(flag).unwrap().options().unwrap().extras.by_source.map(|bits| (bits.v4, bits.v6));
        assert_eq!([by(""), by("--by source"), by("--by source/24")], [None, Some((32, 128)), Some((24, 64))]);
    }
}
