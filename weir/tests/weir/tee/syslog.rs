//! The purpose: one source of syslog, two systems to feed. Every message arrives at both, whole and unaltered (RFC 5426:
//! one message a datagram).

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tempfile::TempDir;
use weir_kernel::namespaces::process::Running;

use super::network::{Host, await_that, network};
use super::{Tee, program};

#[test]
#[ignore = "long: 13 s"]
fn a_hundred_thousand_reach_both() {
    from_logger(100_000);
    from_rsyslog(100_000);
    from_loggen(100_000);
}

#[test]
fn logger_reaches_rsyslog_and_syslog_ng() {
    from_logger(20_000);
}

#[test]
fn rsyslog_reaches_rsyslog_and_syslog_ng() {
    from_rsyslog(20_000);
}

#[test]
fn loggen_reaches_rsyslog_and_syslog_ng() {
    from_loggen(20_000);
}

/// Most that the kernel charges a receive buffer for a message of these, with its headers and descriptors, bytes.
const MOST_CHARGED: usize = 2560;

fn from_logger(messages: usize) {
    let Some(mut site) = Site::build("logger") else { return };
    let texts: Vec<String> = (0..messages).map(text).collect();
    let server = site.server.clone();
    let form = ["--rfc3164", "--priority", "local0.info", "--tag", "app"];
    let logger = site.source.program(&site.program).args(["--udp", "--server", &server, "--port", "514"]).args(form);
    let mut logger = logger.stdin(Stdio::piped()).spawn().unwrap();
    site.pour(logger.take_stdin().unwrap(), &texts);
    assert_eq!(logger.wait().unwrap(), 0);
    // The head tells the time of sending.
    let lines = site.end();
    assert_eq!(lines.len(), messages);
    for (line, text) in lines.iter().zip(&texts) {
        let (head, rest) = line.split_once(" app: ").unwrap_or_else(|| panic!("{line:?}"));
        assert!(head.starts_with("<134>") && head.ends_with(" source"), "{line:?}");
        assert_eq!(rest, text);
    }
}

fn from_rsyslog(messages: usize) {
    let Some(mut site) = Site::build("rsyslogd") else { return };
    let messages: Vec<String> = (0..messages).map(message).collect();
    let (dir, server) = (site.dir.path().join("source"), &site.server);
    fs::create_dir(&dir).unwrap();
    let tailed = File::create(dir.join("messages")).unwrap();
    let configuration = format!(
        r#"
        global(workDirectory="{dir}")
        module(load="imfile" mode="inotify")
        input(type="imfile" file="{dir}/messages" tag="tail")
        template(name="as-read" type="string" string="%msg%")
        action(type="omfwd" target="{server}" port="514" protocol="udp" template="as-read")
        "#,
        dir = dir.display(),
    );
    let mut rsyslog = rsyslog(&site.source, &site.program, &dir, &configuration);
    site.pour(tailed, &messages);
    rsyslog.kill().unwrap();
    assert_eq!(site.end(), messages);
}

fn from_loggen(messages: usize) {
    let Some(mut site) = Site::build("loggen") else { return };
    let messages: Vec<String> = (0..messages).map(message).collect();
    // Paced by what it reads, not by its clock.
    let form =
        ["--inet", "--dgram", "--rate", "1000000", "--interval", "1000", "--read-file", "/dev/stdin", "--dont-parse"];
    let loggen = site.source.program(&site.program).args(form).args([&site.server, "514"]);
    let mut loggen = loggen.stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    site.pour(loggen.take_stdin().unwrap(), &messages);
    assert_eq!(loggen.wait().unwrap(), 0);
    assert_eq!(site.end(), messages);
}

/// A source host, a tee on another, and the two systems to feed.
struct Site {
    source: Host,
    program: PathBuf,
    tee: Tee,
    /// The tee's address.
    server: String,
    sinks: [System; 2],
    dir: TempDir,
}

/// A logging system, and what it has written so far.
struct System {
    _running: Running,
    file: File,
    text: Vec<u8>,
    lines: usize,
}

impl Site {
    fn build(source_program: &str) -> Option<Site> {
        let [program, rsyslogd, syslog_ng] = [source_program, "rsyslogd", "syslog-ng"].map(program);
        let (program, rsyslogd, syslog_ng) = (program?, rsyslogd?, syslog_ng?);
        let [source, host, a, b] = network(["source", "tee", "a", "b"])?;
        let dir = TempDir::new().unwrap();
        let sinks = [rsyslog_sink(&a, &rsyslogd, dir.path()), syslog_ng_sink(&b, &syslog_ng, dir.path())];
        let tee = Tee::start(&host, &["0.0.0.0:514"], &[a.at(514), b.at(514)]);
        Some(Site { source, program, tee, server: host.v4.to_string(), sinks, dir })
    }

    /// Writes each line for the source to read, no further ahead of what both systems have written than their receive
    /// buffers hold: at full speed they would lose without a tee as well.
    #[track_caller]
    fn pour(&mut self, mut to: impl Write, lines: &[String]) {
        let batch = largest_buffer() / MOST_CHARGED / 4;
        let mut poured = 0;
        for batch in lines.chunks(batch.clamp(25, 1000)) {
            to.write_all((batch.join("\n") + "\n").as_bytes()).unwrap();
            self.await_lines(poured);
            poured += batch.len();
        }
        drop(to);
        self.await_lines(poured);
    }

    /// Waits until both systems have written so many lines; files have no event for it.
    #[track_caller]
    fn await_lines(&mut self, count: usize) {
        for sink in &mut self.sinks {
            await_that(&format!("line {count}"), || sink.read() >= count);
        }
    }

    /// Ends the tee; the lines that each of the systems has written.
    #[track_caller]
    fn end(self) -> Vec<String> {
        let account = self.tee.end();
        let [a, b] = self.sinks.map(|sink| String::from_utf8(sink.text).unwrap());
        let lines: Vec<String> = a.lines().map(str::to_owned).collect();
        account.is_lossless(lines.len());
        assert!(a == b, "the two systems differ");
        lines
    }
}

impl System {
    fn new(running: Running, file: &Path) -> System {
        System { _running: running, file: File::open(file).unwrap(), text: Vec::new(), lines: 0 }
    }

    /// How many lines there are by now.
    fn read(&mut self) -> usize {
        let before = self.text.len();
        self.file.read_to_end(&mut self.text).unwrap();
        self.lines += self.text[before..].iter().filter(|&&byte| byte == b'\n').count();
        self.lines
    }
}

fn rsyslog_sink(host: &Host, program: &Path, dir: &Path) -> System {
    let dir = dir.join("rsyslog");
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("received"), "").unwrap();
    let configuration = format!(
        r#"
        global(workDirectory="{dir}")
        main_queue(queue.type="FixedArray" queue.size="200000")
        module(load="imudp")
        input(type="imudp" port="514" rcvbufSize="32m" rateLimit.interval="0")
        template(name="raw" type="string" string="%rawmsg%\n")
        action(type="omfile" file="{dir}/received" template="raw")
        "#,
        dir = dir.display(),
    );
    let mut running = rsyslog(host, program, &dir, &configuration);
    host.await_port(514, &mut running);
    System::new(running, &dir.join("received"))
}

fn rsyslog(host: &Host, program: &Path, dir: &Path, configuration: &str) -> Running {
    let (file, id) = (dir.join("rsyslog.conf"), dir.join("rsyslog.pid"));
    fs::write(&file, configuration).unwrap();
    host.program(program).args(["-n", "-f"]).args([&file]).args(["-i"]).args([&id]).spawn().unwrap()
}

fn syslog_ng_sink(host: &Host, program: &Path, dir: &Path) -> System {
    let dir = dir.join("syslog-ng");
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("received"), "").unwrap();
    let path = |name: &str| dir.join(name).to_str().unwrap().to_owned();
    let configuration = format!(
        r#"
        @version: current
        options {{ stats-freq(0); log-fifo-size(200000); keep-hostname(yes); use-dns(no); dns-cache(no); }};
        source in {{ network(transport("udp") port(514) so-rcvbuf({buffer}) log-iw-size(100000) log-fetch-limit(1000) flags(no-parse)); }};
        destination out {{ file("{file}" template("${{MESSAGE}}\n")); }};
        log {{ source(in); destination(out); }};
        "#,
        buffer = largest_buffer(),
        file = path("received"),
    );
    fs::write(path("syslog-ng.conf"), configuration.trim_start()).unwrap();
    let files = [
        "--cfgfile",
        &path("syslog-ng.conf"),
        "--control",
        &path("ctl"),
        "--persist-file",
        &path("persist"),
        "--pidfile",
        &path("pid"),
    ]
    .map(str::to_owned);
    let program = host.program(program).args(["--foreground", "--no-caps"]).args(files);
    let mut running = program.spawn().unwrap();
    host.await_port(514, &mut running);
    System::new(running, Path::new(&path("received")))
}

/// What a program without privilege can ask of a receive buffer (net.core.rmem_max); the kernel grants twice as much.
fn largest_buffer() -> usize {
    fs::read_to_string("/proc/sys/net/core/rmem_max").unwrap().trim().parse().unwrap()
}

/// A message as RFC 5424 has it.
fn message(number: usize) -> String {
    format!("<134>1 2026-01-01T00:00:00Z source app - - - {}", text(number))
}

/// A numbered text of 20 to 900 bytes, not all of them ASCII.
fn text(number: usize) -> String {
    let filler = "weir: 100 %  \"über\" <dam> \\ [x=1] ";
    let length = number * 7919 % 850;
    format!("message {number:06} {}.", filler.repeat(25).chars().take(length).collect::<String>())
}
