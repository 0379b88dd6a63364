//! What a recorder takes beside what the disk takes, and a viewer beside it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use bench_measure::{Report, build_weir, machine, median, peers};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use weir_signal::receive::{Listen, News, Receiver, Settings, Sink, Stream};
use weir_wire::signal::{Block, Channel, PORT, Values};

use super::{Scale, quantile};
use crate::feed::Feed;
use crate::network::Network;
use crate::programs::Programs;

pub(crate) fn run(_: &Programs, scale: Scale, report: &mut Report) -> Result<()> {
    let weir = build_weir()?;
    let bytes = (scale.look.as_secs_f64() * 512e6) as u64;
    let directory = peers().with_file_name("archive");
    fs::create_dir_all(&directory)?;
    println!(
        "A recorder, {} MB a look, beside `dd bs=4M conv=fdatasync` of as much to the same disk",
        bytes / 1_000_000
    );
    let alone = delays(&weir, scale.look)?;
    let (mut shares, mut disks, mut rates, mut besides, mut bests) = (vec![], vec![], vec![], vec![], vec![]);
    for _ in 0..scale.rounds {
        let disk = dd(&directory, bytes)?;
        disks.push(disk);
        let mut best = 0.0;
        for share in SHARES {
            let look = record(&weir, &directory, disk * share, bytes)?;
            println!("    {look}");
            report.figure(json!({
                "scene": "archive", "dd_bytes_per_s": disk, "offered": share, "bytes_per_s": look.bytes_per_s,
                "sent": look.sent, "lost": look.lost, "busy": look.busy, "viewer_p99_ms": look.viewer,
            }));
            if look.lost == 0 {
                besides.push(look.viewer);
                best = look.bytes_per_s;
                bests.push(look.busy.values().sum::<f64>());
                break;
            }
        }
        rates.push(best);
        shares.push(best / disk);
    }
    let share = median(&shares) * 100.0;
    let words = report.goal(
        "bytes a second that a recorder writes, over those of dd",
        ">= 80 %, 0 samples lost",
        &format!("{share:.0} %"),
        share >= 80.0,
    );
    println!(
        "    dd {:.0} MB/s, the recorder {:.0} MB/s: {share:.0} % {words}",
        median(&disks) / 1e6,
        median(&rates) / 1e6
    );
    println!(
        "    the recorder took {:.2} processors of two at that, those of the source and the kernel not counted",
        median(&bests)
    );
    let beside = median(&besides);
    let words = report.goal(
        "sensor to a viewer beside the recorder, 99th percentile",
        "<= 50 ms",
        &format!("{beside:.1} ms"),
        beside <= 50.0,
    );
    println!("    a viewer of another stream: 99 % within {alone:.1} ms alone, {beside:.1} ms beside it {words}");
    Ok(())
}

/// What came of recording at some rate.
struct Look {
    offered: f64,
    bytes_per_s: f64,
    sent: u64,
    lost: u64,
    causes: String,
    /// Processors, by thread.
    busy: BTreeMap<String, f64>,
    /// 99th percentile of the viewer's delay, ms.
    viewer: f64,
}

impl std::fmt::Display for Look {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { offered, bytes_per_s, sent, lost, causes, busy, viewer } = self;
        let busy: Vec<_> = busy.iter().map(|(name, busy)| format!("{name} {:.0} %", busy * 100.0)).collect();
        let (offered, written) = (offered / 1e6, bytes_per_s / 1e6);
        write!(f, "{offered:.0} MB/s offered, {written:.0} written; {lost} of {sent} samples lost{causes}; ")?;
        write!(f, "{}; viewer p99 {viewer:.1} ms", busy.join(", "))
    }
}

/// Bytes a second that the disk takes, told by the time until they are there.
fn dd(directory: &Path, bytes: u64) -> Result<f64> {
    let file = directory.join("dd");
    let (count, begun) = (bytes.div_ceil(4 << 20), Instant::now());
    let mut command = Command::new("dd");
    command.arg(format!("of={}", file.display())).arg(format!("count={count}"));
    let output = command.args(["if=/dev/zero", "bs=4M", "conv=fdatasync"]).output()?;
    let elapsed = begun.elapsed();
    ensure!(output.status.success(), "dd: {}", String::from_utf8_lossy(&output.stderr).trim());
    fs::remove_file(&file)?;
    Ok((count * (4 << 20)) as f64 / elapsed.as_secs_f64())
}

/// `rate`: bytes of files a second; `bytes`: of files.
fn record(weir: &Path, directory: &Path, rate: f64, bytes: u64) -> Result<Look> {
    let network = Network::new(2)?;
    let _station = station(weir, &network)?;
    let over = AtomicBool::new(false);
    let files = directory.join("files");
    let _ = fs::remove_dir_all(&files);
    fs::create_dir_all(&files)?;
    let config = directory.join("record.toml");
    let text = format!(
        "user = \"root\"\ndirectory = \"{}\"\nreceive_buffer = \"64MiB\"\nqueue = \"256MiB\"\n[[listen]]\naddress = \"{FULL}:{PORT}\"\ninterface = \"eth0\"\n",
        files.display()
    );
    fs::write(&config, text)?;
    let mut recorder = Started(network.hosts[1].run(|| -> Result<Child> {
        let mut command = Command::new(weir);
        command.args(["monitor", "record", "--json", "-c"]).arg(&config);
        Ok(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?)
    })??);
    recorder.await_ready()?;
    let group = SocketAddr::from((FULL, PORT));
    let mut feed = network.hosts[0].run(|| Feed::open(group, rate / OVERHEAD))??;
    let mut viewer = viewer(&network)?;
    thread::scope(|scope| {
        let watching = scope.spawn(|| {
            let mut delays = Delays::new();
            while !over.load(Ordering::Relaxed) {
                viewer.take(Duration::from_millis(20), &mut delays);
            }
            delays.ninety_nine()
        });
        let told = (|| -> Result<_> {
            feed.tell();
            // The viewer knows its channels.
            thread::sleep(SETTLED + Duration::from_millis(200));
            let (before, begun) = (recorder.busy()?, Instant::now());
            machine::pinned(machine::TRAFFIC, || feed.send((bytes as f64 / OVERHEAD) as u64))?;
            let (after, sending) = (recorder.busy()?, begun.elapsed());
            feed.end();
            // The last datagram is with the receiver before it is asked to end.
            thread::sleep(Duration::from_millis(100));
            let ledger = recorder.end()?;
            for file in fs::read_dir(&files)? {
                File::open(file?.path())?.sync_data()?;
            }
            let elapsed = begun.elapsed().saturating_sub(Duration::from_millis(100));
            let busy = after.into_iter().map(|(name, after)| {
                let spent = after.saturating_sub(before.get(&name).copied().unwrap_or_default());
                (name, spent.as_secs_f64() / sending.as_secs_f64())
            });
            Ok((ledger, elapsed, busy.filter(|(_, busy)| *busy > 0.005).collect()))
        })();
        over.store(true, Ordering::Relaxed);
        let viewer = watching.join().ok().context("the viewer panicked")?;
        let (ledger, elapsed, busy) = told?;
        ensure!(ledger["closed"] == true, "the ledger does not close: {ledger}");
        let number = |value: &Value| value.as_u64().unwrap_or_default();
        let (sent, archive) = (feed.samples(), &ledger["archive"]);
        let lost = sent - number(&archive["kept"]);
        let missing = ledger["received"]["missing"].as_object().into_iter().flatten();
        let mut causes: Vec<_> =
            missing.filter(|(_, count)| number(count) > 0).map(|(cause, _)| cause.as_str()).collect();
        causes.extend(["overrun", "unkept"].into_iter().filter(|cause| number(&archive[*cause]) > 0));
        let causes = if causes.is_empty() { String::new() } else { format!(" ({})", causes.join(", ")) };
        let bytes_per_s = number(&archive["bytes"]) as f64 / elapsed.as_secs_f64();
        fs::remove_dir_all(&files)?;
        Ok(Look { offered: rate, bytes_per_s, sent, lost, causes, busy, viewer })
    })
}

/// The 99th percentile of a viewer's delay with nothing beside, ms.
fn delays(weir: &Path, span: Duration) -> Result<f64> {
    let network = Network::new(2)?;
    let _station = station(weir, &network)?;
    let (mut viewer, mut delays, begun) = (viewer(&network)?, Delays::new(), Instant::now());
    while begun.elapsed() < span + SETTLED {
        viewer.take(Duration::from_millis(20), &mut delays);
    }
    Ok(delays.ninety_nine())
}

fn station(weir: &Path, network: &Network) -> Result<Started> {
    let child = network.hosts[0].run(|| {
        let arguments = ["monitor", "station", "--interface", "eth0", "--source", "sine,name=coil,rate=1k/s,copies=64"];
        Command::new(weir).args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
    })?;
    Ok(Started(child?))
}

fn viewer(network: &Network) -> Result<Receiver> {
    let listen =
        Listen { address: (Ipv4Addr::new(239, 192, 77, 1), PORT).into(), interface: Some("eth0".into()), source: None };
    Ok(network.hosts[1].run(|| Receiver::open(&Settings { listen: vec![listen], ..Settings::default() }))??)
}

/// From the oldest sample of each block to its viewer, ms.
struct Delays {
    since: Instant,
    all: Vec<f64>,
}

impl Delays {
    fn new() -> Self {
        Self { since: Instant::now() + SETTLED, all: Vec::new() }
    }

    fn ninety_nine(mut self) -> f64 {
        self.all.sort_unstable_by(f64::total_cmp);
        quantile(&self.all, 0.99)
    }
}

impl Sink for Delays {
    fn channel(&mut self, _: &Arc<Stream>, _: &Arc<Channel>) {}

    fn block(&mut self, _: &Arc<Stream>, block: &Block<'_>) {
        if !matches!(block.values, Values::Gap(_)) && Instant::now() > self.since {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as i64;
            self.all.push((now - block.time) as f64 / 1e6);
        }
    }

    fn stream(&mut self, _: &Arc<Stream>, _: News) {}
}

/// Killed when dropped.
struct Started(Child);

impl Started {
    /// Reads what it says until it is ready, and the rest beside.
    fn await_ready(&mut self) -> Result<()> {
        let mut lines = BufReader::new(self.0.stderr.take().context("it has no stderr")?).lines();
        let mut said = String::new();
        loop {
            let line = lines.next().with_context(|| format!("it has ended: {said}"))??;
            said = line;
            if said.contains("ready") {
                break;
            }
        }
        thread::spawn(move || lines.for_each(drop));
        Ok(())
    }

    /// Its ledger, once it has ended.
    fn end(&mut self) -> Result<Value> {
        kill(Pid::from_raw(self.0.id() as i32), Signal::SIGTERM)?;
        let mut text = String::new();
        self.0.stdout.take().context("it has no output")?.read_to_string(&mut text)?;
        self.0.wait()?;
        serde_json::from_str(&text).context("its ledger")
    }

    /// Time on processors, by thread.
    fn busy(&self) -> Result<BTreeMap<String, Duration>> {
        let mut all = BTreeMap::new();
        for thread in fs::read_dir(format!("/proc/{}/task", self.0.id()))? {
            let path: PathBuf = thread?.path();
            let name = fs::read_to_string(path.join("comm"))?.trim().to_owned();
            let text = fs::read_to_string(path.join("schedstat"))?;
            let nanos = text.split(' ').next().unwrap_or_default().parse()?;
            *all.entry(name).or_insert(Duration::ZERO) += Duration::from_nanos(nanos);
        }
        Ok(all)
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Metadata comes each second: what a newcomer has waits for it.
const SETTLED: Duration = Duration::from_millis(1500);

/// Of what dd writes, offered from the greatest on until nothing is lost.
const SHARES: [f64; 6] = [0.95, 0.85, 0.7, 0.5, 0.35, 0.2];

/// Bytes of a file over those of its samples.
const OVERHEAD: f64 = 1.095;

const FULL: Ipv4Addr = Ipv4Addr::new(239, 192, 77, 9);
