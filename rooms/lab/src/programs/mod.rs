//! The programs of a scenario: starts them on their hosts, polls them, ends them in any case, and collects their
//! output.
//!
//! ```text
//! [[programs]] -> Instance: a host, a Life -> Running, below the lab's init (weir_kernel::namespaces::process)
//!                 stdout -> Lines, stderr -> its last line, poll -> answers    -> ProgramFacts, for `columns`
//! ```

mod life;
mod output;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::mem;
use std::net::SocketAddr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixDatagram};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use std::{env, fs};

use anyhow::{Context, Result, anyhow, bail, ensure};
use nix::errno::Errno;
use nix::sys::signal::Signal;
use serde_json::Value;
use weir_kernel::namespaces::NetNs;
use weir_kernel::namespaces::process::{self, Running};
use weir_kernel::scheduling;
use weir_program::clock::{self, Nanos, nanos};
use weir_program::stop::Stop;
use weir_units::Span;

use self::life::{Action, Event, Life, Plan, State};
pub(crate) use self::output::Lines;
use self::output::since;
use crate::endpoints::joined;
use crate::network::Network;
use crate::scenario::{Mode, Program, Scenario};
use crate::topology::{Kind, Topology};

/// The reports of each program, by name: one entry per instance.
pub type AllFacts = BTreeMap<String, Vec<ProgramFacts>>;

/// The reports of one instance of a program.
#[derive(Debug, Default)]
pub struct ProgramFacts {
    /// Its host.
    pub host: String,
    /// The last object that it printed.
    pub printed: Option<Value>,
    /// Every object that it printed on one line, by seconds from the start of the sending window.
    pub lines: Vec<(f64, Value)>,
    /// Its answers, in the same form.
    pub polled: Vec<(f64, Value)>,
    /// Remarks about it.
    pub remark: Option<String>,
    /// Whether these make the row invalid.
    pub failed: bool,
    /// Why it has printed no object, as a continuation of its name.
    pub unheard: String,
}

/// The programs of a cell; those that start before the window are ready.
pub struct Programs(Vec<Instance>);

/// A program on a host.
pub(crate) struct Instance {
    program: Program,
    /// The executable that becomes its init.
    init: PathBuf,
    host: String,
    ns: NetNs,
    processor: Option<usize>,
    life: Life,
    running: Option<Running>,
    /// Socket on which it reports that it is ready.
    notify: Option<UnixDatagram>,
    /// Standard output and standard error.
    printed: [Option<JoinHandle<Lines>>; 2],
}

impl Programs {
    /// Starts the programs that must run before the window, each when the one before is ready.
    ///
    /// # Errors
    /// A host cannot be entered. A program that fails is reported at the end.
    pub fn start(network: &Network<'_>, scenario: &Scenario, topology: &Topology, stop: &Stop) -> Result<Programs> {
        let mut instances = Vec::new();
        for program in &scenario.programs {
            for host in program.host.names() {
                let node = topology.node(host)?;
                let (ns, processor) = (network.namespace(node).try_clone()?, topology.nodes[node].processor);
                instances.push(Instance::new(INIT.as_ref(), filled(program, scenario, host)?, host, ns, processor));
            }
        }
        for instance in instances.iter_mut().filter(|instance| instance.program.start == "before") {
            instance.get_ready(|| stop.is_set());
        }
        Ok(Programs(instances))
    }

    /// Runs them from `begin`, the start of the sending window of this length, until the traffic is over and all have
    /// ended.
    pub fn run(self, begin: Nanos, window: Duration, over: &AtomicBool, stop: &Stop) -> AllFacts {
        let Programs(mut instances) = self;
        if instances.is_empty() {
            return AllFacts::new();
        }
        let end = begin + nanos(window);
        for Instance { program, life, .. } in &mut instances {
            let at = |time: &str| match time {
                "before" => 0,
                "window" => end,
                offset => offset.parse().map_or(Nanos::MAX, |offset: Span| begin + nanos(offset.duration())),
            };
            life.plan = Plan { start: at(&program.start), stop: at(&program.stop), kill: at(&program.kill) };
        }
        let polled = thread::scope(|scope| {
            let poll = |Instance { program, ns, .. }: &Instance| {
                let (poll, ns) = (program.poll.clone()?, ns.try_clone().ok()?);
                let (server, path) = output::parts(&poll.get).map(|(server, path)| (server, path.to_owned()))?;
                let ask = move || {
                    let ask = || answers(server, &path, begin, poll.from.duration(), poll.every.duration(), end, stop);
                    ns.run(ask).unwrap_or_default()
                };
                Some(scope.spawn(ask))
            };
            let polling: Vec<_> = instances.iter().map(poll).collect();
            conduct(&mut instances, over, stop);
            polling.into_iter().map(|thread| thread.map(joined).unwrap_or_default()).collect::<Vec<_>>()
        });
        let mut facts = AllFacts::new();
        for (instance, polled) in instances.into_iter().zip(polled) {
            let name = instance.program.name.clone();
            facts.entry(name).or_default().push(instance.facts(begin, polled));
        }
        facts
    }
}

/// Runs until all have ended. After the traffic, programs that start after the window run first, then the others end.
fn conduct(instances: &mut [Instance], over: &AtomicBool, stop: &Stop) {
    let mut over_since = None;
    loop {
        instances.iter_mut().for_each(Instance::look);
        if instances.iter().all(|instance| instance.life.is_over()) && over.load(Ordering::Relaxed) {
            return;
        }
        if over.load(Ordering::Relaxed) || stop.is_set() {
            let since = *over_since.get_or_insert_with(clock::now);
            let last_words = |i: &Instance| i.program.start == "window" && !i.life.is_over();
            let wait = instances.iter().any(last_words) && clock::now() < since + nanos(LAST_WORDS) && !stop.is_set();
            if !wait {
                instances.iter_mut().for_each(|instance| instance.life.plan.stop = since);
            }
        }
        thread::sleep(LOOK);
    }
}

impl Instance {
    pub(crate) fn new(init: &Path, program: Program, host: &str, ns: NetNs, processor: Option<usize>) -> Instance {
        let plan = Plan { start: Nanos::MAX, stop: Nanos::MAX, kill: Nanos::MAX };
        Instance {
            program,
            init: init.to_owned(),
            host: host.to_owned(),
            ns,
            processor,
            life: Life { plan, state: State::Planned },
            running: None,
            notify: None,
            printed: [None, None],
        }
    }

    /// Starts it, and returns when it is ready or never will be. Returns whether it runs.
    pub(crate) fn get_ready(&mut self, stop: impl Fn() -> bool) -> bool {
        self.life.plan.start = 0;
        while matches!(self.life.state, State::Planned | State::Starting { .. }) && !stop() {
            self.look();
            thread::sleep(LOOK);
        }
        self.life.state == State::Running
    }

    /// Runs it from one time to another, or to the stop; returns when it has ended.
    pub(crate) fn conduct(&mut self, start: Nanos, end: Nanos, stop: impl Fn() -> bool) {
        self.life.plan.start = start;
        while !self.life.is_over() {
            self.life.plan.stop = if stop() { 0 } else { end };
            self.look();
            thread::sleep(LOOK);
        }
    }

    fn look(&mut self) {
        let exited = self.running.as_mut().and_then(|running| running.wait_timeout(Duration::ZERO).ok().flatten());
        let ready = (matches!(self.life.state, State::Starting { .. }) && self.is_ready()).then_some(Event::Ready);
        for event in [ready, exited.map(Event::Exited), Some(Event::Clock)].into_iter().flatten() {
            match self.life.step(event, clock::now()) {
                None => {}
                Some(Action::Start) => {
                    let event = self.start().map_or_else(Event::NotStarted, |()| Event::Started);
                    self.life.step(event, clock::now());
                }
                // A program that has ended needs neither.
                Some(Action::Terminate) => drop(self.running.as_ref().map(|running| running.signal(Signal::SIGTERM))),
                Some(Action::Kill) => drop(self.running.as_mut().map(Running::kill)),
            }
        }
    }

    fn start(&mut self) -> Result<(), State> {
        let failed = |error: &dyn std::fmt::Display| State::Failed(error.to_string());
        let Program { name, run, stdin, ready, .. } = &self.program;
        let (reader, mut writer) = io::pipe().map_err(|error| failed(&error))?;
        // A pipe holds all of it, see `check`.
        writer.write_all(stdin.as_bytes()).map_err(|error| failed(&error))?;
        drop(writer);
        let mut program = process::Program::below(&self.init, &self.ns, &self.host, &run[0]).args(&run[1..]);
        if ready == "READY" {
            let socket = self.ns.run(|| UnixDatagram::bind_addr(&UnixAddr::from_abstract_name(name)?));
            let socket = socket.map_err(|error| failed(&error))?.map_err(|error| failed(&error))?;
            socket.set_nonblocking(true).map_err(|error| failed(&error))?;
            self.notify = Some(socket);
            program = program.env("NOTIFY_SOCKET", format!("@{name}"));
        }
        let program = program.stdin(reader).stdout(Stdio::piped()).stderr(Stdio::piped());
        let spawn = || {
            // It keeps to the CPU of the thread that starts it, which was among the permitted ones.
            let _ = self.processor.map(scheduling::run_on);
            program.spawn()
        };
        let mut running = thread::scope(|scope| joined(scope.spawn(spawn))).map_err(|error| match error.errno() {
            Some(Errno::ENOENT) => State::Absent,
            _ => failed(&error),
        })?;
        let stdout = running.take_stdout().map(|stdout| thread::spawn(|| Lines::read(stdout)));
        self.printed = [stdout, running.take_stderr().map(|stderr| thread::spawn(|| Lines::read(stderr)))];
        self.running = Some(running);
        Ok(())
    }

    fn is_ready(&self) -> bool {
        if let Some(port) = self.program.ready_port() {
            return self.ns.run(|| listens(port)).unwrap_or(false);
        }
        self.notify.as_ref().is_none_or(|socket| {
            let mut said = [0; 4096];
            let mut messages = std::iter::from_fn(|| {
                let length = socket.recv(&mut said).ok()?;
                Some(String::from_utf8_lossy(&said[..length]).lines().any(|line| line == "READY=1"))
            });
            messages.any(|ready| ready)
        })
    }

    /// Its standard output and standard error.
    pub(crate) fn output(&mut self) -> [Lines; 2] {
        // Processes that hold its pipes end with it.
        drop(self.running.take());
        mem::take(&mut self.printed).map(|lines| lines.and_then(|lines| lines.join().ok()).unwrap_or_default())
    }

    fn facts(mut self, begin: Nanos, (polled, unanswered): Answers) -> ProgramFacts {
        let [lines, stderr] = self.output();
        let (name, said) = (&self.program.name, stderr.last_words());
        let on_host = |why: String| Some(format!("{name} on {}: {why}", self.host));
        let remark = match &self.life.state {
            State::Absent => Some(format!("{name}: {} is not installed: its columns are empty", self.program.run[0])),
            State::Failed(why) if said.is_empty() => on_host(why.clone()),
            State::Failed(why) => on_host(format!("{why}: {said}")),
            _ if lines.broken > 0 => on_host(format!(
                "{} lines in braces are not JSON (NaN and Infinity are not) and are in no column",
                lines.broken
            )),
            _ if lines.dropped > 0 => {
                on_host(format!("its first {} lines are left out: it printed more than are kept", lines.dropped))
            }
            _ => unanswered.and_then(on_host),
        };
        let unheard = match &self.life.state {
            State::Absent => "is not installed".into(),
            _ => lines.why_no_object(&stderr),
        };
        ProgramFacts {
            failed: matches!(self.life.state, State::Failed(_)),
            host: self.host,
            printed: lines.last_object(),
            lines: lines.objects(begin),
            polled,
            remark,
            unheard,
        }
    }
}

/// The answers, and a remark about failed polls.
type Answers = (Vec<(f64, Value)>, Option<String>);

/// Polls a program from one time to another. A failed poll is repeated.
fn answers(
    server: SocketAddr,
    path: &str,
    begin: Nanos,
    from: Duration,
    every: Duration,
    end: Nanos,
    stop: &Stop,
) -> Answers {
    let (mut answers, mut failed, mut next) = (Vec::new(), Vec::new(), begin + nanos(from));
    while next < end && !stop.is_set() {
        stop.wait(Instant::now() + Duration::from_nanos(next.saturating_sub(clock::now())));
        let asked = clock::now();
        match output::get(server, path, every.max(MIN_PATIENCE)) {
            Ok(answer) => answers.push((since(begin, asked), answer)),
            Err(error) => failed.push(error),
        }
        next += nanos(every);
    }
    let asked = answers.len() + failed.len();
    let remark = failed.last().map(|last| format!("{} of {asked} polls failed, the last: {last}", failed.len()));
    (answers, remark)
}

/// Whether anything listens on a port in the namespace of this thread.
fn listens(port: u16) -> bool {
    let wanted = format!(":{port:04X}");
    [("tcp", "0A"), ("tcp6", "0A"), ("udp", "07"), ("udp6", "07")].into_iter().any(|(table, listening)| {
        let table = fs::read_to_string(format!("/proc/thread-self/net/{table}")).unwrap_or_default();
        table.lines().any(|line| {
            let mut words = line.split_whitespace().skip(1);
            words.next().is_some_and(|own| own.ends_with(&wanted)) && words.nth(1) == Some(listening)
        })
    })
}

/// A program as it runs on a host, with the words in braces replaced.
fn filled(program: &Program, scenario: &Scenario, host: &str) -> Result<Program> {
    let weir = env::current_exe().context("find this executable")?.display().to_string();
    let text = |value: &toml::Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let own = scenario.parameters.iter().map(|(name, value)| (name.clone(), text(value)));
    let words: Vec<(String, String)> = own.chain([("weir".into(), weir), ("host".into(), host.to_owned())]).collect();
    let fill = |text: &str| {
        words.iter().fold(text.to_owned(), |text, (name, value)| text.replace(&format!("{{{name}}}"), value))
    };
    let mut program = program.clone();
    program.run.iter_mut().for_each(|word| *word = fill(word));
    for text in [&mut program.stdin, &mut program.start, &mut program.stop, &mut program.kill] {
        *text = fill(text);
    }
    if let Some(poll) = &mut program.poll {
        poll.get = fill(&poll.get);
    }
    Ok(program)
}

/// Refuses programs that cannot run.
pub fn check(scenario: &Scenario, topology: &Topology) -> Result<()> {
    ensure!(
        scenario.traffic.mode != Mode::Programs || !scenario.programs.is_empty(),
        "traffic.mode: \"programs\" needs [[programs]]"
    );
    for (index, program) in scenario.programs.iter().enumerate() {
        let Program { name, host, run, stdin, poll, .. } = program;
        let key = format!("programs[{index}]");
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
        ensure!(
            !name.is_empty() && name.chars().all(plain) && !["link", "host", "run"].contains(&&**name),
            "{key}.name: {name:?}: use letters, digits and _, but not link, host or run"
        );
        let before = &scenario.programs[..index];
        ensure!(before.iter().all(|other| other.name != *name), "{key}.name: there already is a program `{name}`");
        ensure!(!host.names().is_empty(), "{key}.host: no host given");
        for host in host.names() {
            let kind = topology.nodes[topology.node(host).with_context(|| format!("{key}.host"))?].kind;
            ensure!(kind == Kind::Host, "{key}.host: `{host}` is a {kind}, not a host");
        }
        ensure!(!run.is_empty(), "{key}.run: no program given");
        ensure!(stdin.len() <= PIPE, "{key}.stdin: longer than {PIPE} bytes. Name a file in {key}.run instead.");
        let texts = [stdin, &program.start, &program.stop, &program.kill];
        let asked = poll.iter().map(|poll| &poll.get);
        for word in run.iter().chain(texts).chain(asked).flat_map(|text| words_in_braces(text)) {
            if word != "weir" && word != "host" && !scenario.parameters.contains_key(word) {
                let known = scenario.parameters.keys().map(String::as_str);
                let near = weir_program::config::did_you_mean(word, known.chain(["weir", "host"]));
                bail!("{key}: no {{{word}}} in [parameters]{near}");
            }
        }
        let filled = filled(program, scenario, &host.names()[0])?;
        let (window, drain) = (scenario.run.duration.duration(), scenario.run.drain.duration());
        filled.check(window, drain).map_err(|error| anyhow!("{key}.{error}"))?;
        let is_address = |get: &str| output::parts(get).is_some();
        ensure!(
            filled.poll.iter().all(|poll| is_address(&poll.get) && !poll.every.duration().is_zero()),
            "{key}.poll: `every` must be above 0, `get` an address such as http://10.0.0.1:8008/agents/json"
        );
    }
    Ok(())
}

/// Names in braces, but those of a shell's variables: `${x}`.
fn words_in_braces(text: &str) -> impl Iterator<Item = &str> {
    let name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let word = move |(at, _): (usize, &str)| {
        let (word, _) = text[at + 1..].split_once('}')?;
        let is_name = !word.is_empty() && word.chars().all(name) && !text[..at].ends_with('$');
        is_name.then_some(word)
    };
    text.match_indices('{').filter_map(word)
}

/// This executable, whose `main` calls [`process::init_if_asked`] first.
pub(crate) const INIT: &str = "/proc/self/exe";

/// Time between two checks of the programs: their times are as exact as this.
const LOOK: Duration = Duration::from_millis(5);

/// Time to become ready, for programs that start after the window.
const LAST_WORDS: Duration = Duration::from_secs(30);

/// Time-out of an answer; at most the time to the next poll.
const MIN_PATIENCE: Duration = Duration::from_secs(1);

/// Capacity of a pipe, bytes (pipe(7)).
const PIPE: usize = 65_536;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_in_braces_are_names() {
        let words = |text: &'static str| words_in_braces(text).collect::<Vec<_>>();
        assert_eq!(words("{weir} --delay {delay} ${HOME} { a = 1 } {\"a\":{}} {x.y}"), ["weir", "delay"]);
    }

    #[test]
    fn a_socket_that_listens_is_seen() {
        let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let udp = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let ports = [tcp.local_addr().unwrap().port(), udp.local_addr().unwrap().port()];
        assert!(ports.into_iter().all(listens) && !listens(1));
    }

    #[test]
    fn polls_that_fail_are_counted() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let server = listener.local_addr().unwrap();
        let answering = thread::spawn(move || {
            for (status, body) in [("200 OK", "{\"n\":1}"), ("500 No", "{\"n\":2}"), ("200 OK", "{\"n\":NaN}")] {
                let (mut stream, _) = listener.accept().unwrap();
                io::Read::read(&mut stream, &mut [0; 256]).unwrap();
                write!(stream, "HTTP/1.0 {status}\r\n\r\n{body}").unwrap();
            }
        });
        let begin = clock::now();
        let every = Duration::from_millis(10);
        let (found, remark) = answers(server, "/", begin, every, every, begin + 39_000_000, &Stop::new().unwrap());
        answering.join().unwrap();
        assert_eq!((found.len(), &found[0].1), (1, &serde_json::json!({ "n": 1 })));
        let remark = remark.unwrap();
        assert!(remark.starts_with("2 of 3 polls failed, the last: not JSON: "), "{remark}");
    }
}
