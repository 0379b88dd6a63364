//! iperf3, and a sender and a receiver of our own for what it does not do.

use std::io::{BufRead, BufReader, ErrorKind, IoSlice, IoSliceMut};
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, MultiHeaders, SockaddrIn, recvmsg, sendmmsg, setsockopt, sockopt,
};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_gettime, clock_nanosleep};

use crate::network::Pair;

/// TCP from a to b by iperf3, its best documented settings being its defaults; Gbit/s as received.
pub(crate) fn iperf3(pair: &Pair, seconds: u32) -> Result<f64> {
    let server = || {
        Command::new("iperf3").args(["-s", "-1", "--forceflush"]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()
    };
    let mut server = pair.b.ns.run(server)?.context("start iperf3 (apt install iperf3)")?;
    let mut lines = BufReader::new(server.stdout.take().ok_or_else(|| anyhow!("iperf3 has no output"))?).lines();
    while !lines.next().context("iperf3 -s ended")??.contains("listening") {}
    let (to, time) = (pair.b.address.to_string(), seconds.to_string());
    let client = || Command::new("iperf3").args(["-c", &to, "-t", &time, "-O", "1", "-C", "cubic", "-J"]).output();
    let output = pair.a.ns.run(client)?.context("run iperf3")?;
    drop(lines);
    let _ = server.kill();
    server.wait()?;
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).context("read iperf3's answer")?;
    let rate = answer.pointer("/end/sum_received/bits_per_second").and_then(serde_json::Value::as_f64);
    Ok(rate.ok_or_else(|| anyhow!("iperf3: {answer}"))? / 1e9)
}

/// The version iperf3 calls itself.
pub(crate) fn iperf3_version() -> String {
    let output = Command::new("iperf3").arg("--version").output();
    let text = output.map(|o| String::from_utf8_lossy(&o.stdout).into_owned()).unwrap_or_default();
    text.lines().next().unwrap_or("iperf3 is missing").to_owned()
}

/// A socket on host a, connected to one on host b with a large buffer.
pub(crate) fn sockets(pair: &Pair) -> Result<(UdpSocket, UdpSocket)> {
    let receiver = pair.b.ns.run(|| UdpSocket::bind((pair.b.address, 0)))??;
    let sender = pair.a.ns.run(|| UdpSocket::bind((pair.a.address, 0)))??;
    sender.connect(receiver.local_addr()?)?;
    let _ = setsockopt(&receiver, sockopt::RcvBufForce, &(128 << 20));
    receiver.set_read_timeout(Some(Duration::from_millis(50)))?;
    Ok((sender, receiver))
}

/// What became of a stream of datagrams.
pub(crate) struct Flood {
    pub(crate) offered_per_s: f64,
    pub(crate) sent: u64,
    pub(crate) received: u64,
}

/// Sends datagrams of `size` at `rate` for `time`, 32 a system call, while a second thread receives.
pub(crate) fn flood(pair: &Pair, size: usize, rate: u64, time: Duration) -> Result<Flood> {
    const BATCH: usize = 32;
    let (sender, receiver) = sockets(pair)?;
    let sending = AtomicBool::new(true);
    std::thread::scope(|scope| {
        let received = scope.spawn(|| receive_all(&receiver, &sending));
        let payload = vec![0u8; size];
        let slices = [[IoSlice::new(&payload)]; BATCH];
        let addresses: [Option<SockaddrIn>; BATCH] = [None; BATCH];
        let mut headers = MultiHeaders::preallocate(BATCH, None);
        let _ = nix::sys::prctl::set_timerslack(1);
        let (start, mut sent) = (Instant::now(), 0);
        while start.elapsed() < time {
            let due = Duration::from_nanos(sent * 1_000_000_000 / rate);
            std::thread::sleep(due.saturating_sub(start.elapsed()));
            let results = sendmmsg(sender.as_raw_fd(), &mut headers, &slices, addresses, [], MsgFlags::empty());
            sent += results.map_or(0, |r| r.count()) as u64;
        }
        let offered_per_s = sent as f64 / start.elapsed().as_secs_f64();
        sending.store(false, Ordering::Relaxed);
        let received = received.join().map_err(|_| anyhow!("the receiver panicked"))??;
        Ok(Flood { offered_per_s, sent, received })
    })
}

/// Counts datagrams until the sender has ended and nothing comes any more. Reads what has come every millisecond: a
/// receiver that wakes for each takes the processor from what is measured.
fn receive_all(receiver: &UdpSocket, sending: &AtomicBool) -> Result<u64> {
    let (mut received, mut quiet) = (0, 0);
    let mut bytes = [0; 2048];
    receiver.set_nonblocking(true)?;
    while quiet < 100 {
        match receiver.recv(&mut bytes) {
            Ok(_) => (received, quiet) = (received + 1, 0),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                quiet += i32::from(!sending.load(Ordering::Relaxed));
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(received)
}

/// One-way delays, from just before the send call to the kernel's stamp at the receiver's interface, ns, ascending.
pub(crate) fn delays(pair: &Pair, interval: Duration, count: usize) -> Result<Vec<i64>> {
    let (sender, receiver) = sockets(pair)?;
    setsockopt(&receiver, sockopt::ReceiveTimestampns, &true)?;
    std::thread::scope(|scope| {
        let sending = scope.spawn(move || -> Result<()> {
            let _ = nix::sys::prctl::set_timerslack(1);
            let start = monotonic()?;
            for number in 0..count {
                let due = start + interval * number as u32;
                clock_nanosleep(ClockId::CLOCK_MONOTONIC, ClockNanosleepFlags::TIMER_ABSTIME, &TimeSpec::from(due))?;
                let stamp = Duration::from(clock_gettime(ClockId::CLOCK_REALTIME)?);
                sender.send(&(stamp.as_nanos() as u64).to_ne_bytes())?;
            }
            Ok(())
        });
        let mut delays = Vec::with_capacity(count);
        let mut quiet = 0;
        while quiet < 4 && delays.len() < count {
            // The kernel has stamped them already; reading seldom disturbs least.
            if let Some(delay) = read_delay(&receiver)? {
                delays.push(delay);
                quiet = 0;
            } else if sending.is_finished() {
                quiet += 1;
            }
        }
        sending.join().map_err(|_| anyhow!("the sender panicked"))??;
        ensure!(delays.len() == count, "{} of {count} datagrams arrived", delays.len());
        delays.sort_unstable();
        Ok(delays)
    })
}

fn read_delay(receiver: &UdpSocket) -> Result<Option<i64>> {
    let mut bytes = [0; 8];
    let mut space = nix::cmsg_space!(TimeSpec);
    let mut slices = [IoSliceMut::new(&mut bytes)];
    let flags = MsgFlags::MSG_DONTWAIT;
    let stamp = match recvmsg::<SockaddrIn>(receiver.as_raw_fd(), &mut slices, Some(&mut space), flags) {
        Ok(message) => message.cmsgs()?.find_map(|c| match c {
            ControlMessageOwned::ScmTimestampns(time) => Some(Duration::from(time).as_nanos() as i64),
            _ => None,
        }),
        Err(nix::errno::Errno::EAGAIN) => {
            std::thread::sleep(Duration::from_millis(20));
            return Ok(None);
        }
        Err(error) => return Err(error.into()),
    };
    Ok(Some(stamp.context("a datagram without a stamp")? - u64::from_ne_bytes(bytes) as i64))
}

fn monotonic() -> Result<Duration> {
    Ok(clock_gettime(ClockId::CLOCK_MONOTONIC)?.into())
}

/// Sends `per_second` datagrams on each pair, evenly spread, for `time`; returns how many were sent and arrived.
pub(crate) fn drizzle(pairs: &[Pair], per_second: u32, time: Duration) -> Result<(u64, u64)> {
    let sockets: Vec<_> = pairs.iter().map(sockets).collect::<Result<_>>()?;
    for (sender, receiver) in &sockets {
        // A switch forwards only once it has noticed that its ports are up.
        while receiver.recv(&mut [0; 1000]).is_err() {
            sender.send(&[0; 1000])?;
        }
    }
    std::thread::sleep(Duration::from_millis(100));
    for (_, receiver) in &sockets {
        receiver.set_nonblocking(true)?;
        while receiver.recv(&mut [0; 1000]).is_ok() {}
    }
    let step = Duration::from_secs(1) / per_second / pairs.len() as u32;
    let (start, mut sent) = (monotonic()?, 0u64);
    while start + time > monotonic()? {
        let due = TimeSpec::from(start + step * sent as u32);
        clock_nanosleep(ClockId::CLOCK_MONOTONIC, ClockNanosleepFlags::TIMER_ABSTIME, &due)?;
        sockets[sent as usize % sockets.len()].0.send(&[0; 1000])?;
        sent += 1;
    }
    std::thread::sleep(Duration::from_millis(200));
    let mut received = 0;
    for (_, receiver) in &sockets {
        while receiver.recv(&mut [0; 1000]).is_ok() {
            received += 1;
        }
    }
    Ok((sent, received))
}
