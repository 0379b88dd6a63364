//! `weir protect replay`: what would have been done about a capture.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::time::{Duration, UNIX_EPOCH};

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use weir_program::config::Flags;
use weir_program::escape::write_json;
use weir_program::output::{complain, say};
use weir_protect::journal::Entry;
use weir_protect::model::Phase;
use weir_sflow::config::{Origin, Settings};
use weir_sflow::rehearsal::Rehearsal;
use weir_wire::pcap::{Reader, Step};

use crate::{Outcome, usage};

/// `weir protect replay`.
#[derive(Debug, Args)]
pub(super) struct Replay {
    /// A capture (pcap or pcapng) of sFlow datagrams, or with --sampling of packets.
    #[arg(value_name = "FILE")]
    capture: PathBuf,
    /// The analyser's configuration, of which [protect] counts. Nothing is announced, nothing written.
    #[arg(short, long, value_name = "FILE")]
    config: PathBuf,
    /// The capture is of packets: look at one of N, as an agent would have sampled them.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    sampling: Option<u32>,
    /// Print one JSON object a line, as the journal has them.
    #[arg(long)]
    json: bool,
}

impl Replay {
    pub(super) fn run(self) -> Result<Outcome> {
        let settings = usage(Settings::load(&Origin::new(Some(self.config.clone()), Flags::default()), false))?;
        let rehearsal = Rehearsal::new(&settings, self.sampling);
        let mut rehearsal = usage(rehearsal.with_context(|| self.config.display().to_string()))?;
        let shown = self.capture.display();
        let file = usage(File::open(&self.capture).with_context(|| format!("open {shown}")))?;
        self.read(file, &mut rehearsal).map_err(|error| anyhow!("{shown}: {error}"))?;
        let entries = rehearsal.end();
        self.print(&entries, &rehearsal)?;
        let (totals, board) = (rehearsal.totals, rehearsal.board());
        let is_sampled = self.sampling.is_some();
        if is_sampled && 2 * totals.sflow > totals.packets && board.counts.attacks == 0 {
            bail!(
                "{shown}: {} of its {} packets are sFlow datagrams, of which --sampling looks at the packets alone (leave it out: \
                 what they tell of is replayed)",
                totals.sflow,
                totals.packets
            );
        }
        if totals.taken == 0 {
            let hint = match self.sampling {
                None => "no sFlow datagram in it (is it of packets? then say how they are sampled: --sampling 1000)",
                Some(_) => "no IP packet in it was sampled (lower --sampling)",
            };
            bail!("{shown}: {hint}");
        }
        let on = board.attacks.iter().filter(|attack| attack.phase != Phase::Over).count();
        let span = totals.span.map_or(0.0, |(first, last)| (last - first) as f64 / 1e9);
        complain!(
            "{} packets, {} of them looked at, over {span:.1} s; attacks: {} ({on} at the end); routes announced: {}",
            totals.packets,
            totals.taken,
            board.counts.attacks,
            board.counts.announced
        );
        if is_sampled && totals.sflow > 0 {
            complain!(
                "weir: {} of the packets are sFlow datagrams: what they tell of is replayed without --sampling",
                totals.sflow
            );
        }
        Ok(Outcome::Done)
    }

    fn read(&self, mut file: File, rehearsal: &mut Rehearsal) -> Result<()> {
        let (mut reader, mut buffer, mut from, mut to) = (Reader::new(), vec![0; CHUNK], 0, 0);
        loop {
            let needed = match reader.step(&buffer[from..to])? {
                Step::Need(bytes) => bytes,
                Step::Used(bytes, packet) => {
                    if let Some(packet) = packet {
                        let entries = rehearsal.packet(&packet);
                        self.print(&entries, rehearsal)?;
                    }
                    from += bytes;
                    continue;
                }
            };
            buffer.copy_within(from..to, 0);
            (from, to) = (0, to - from);
            buffer.resize(needed.max(CHUNK), 0);
            match file.read(&mut buffer[to..])? {
                0 if to > 0 => {
                    complain!("weir: the capture ends in the middle of a packet");
                    return Ok(());
                }
                0 => return Ok(()),
                bytes => to += bytes,
            }
        }
    }

    fn print(&self, entries: &[Entry], rehearsal: &Rehearsal) -> Result<()> {
        let begin = rehearsal.totals.span.map_or(UNIX_EPOCH, |(first, _)| UNIX_EPOCH + Duration::from_nanos(first));
        for entry in entries {
            if self.json {
                let mut line = Vec::new();
                write_json(&mut line, entry)?;
                say!("{}", String::from_utf8_lossy(&line));
            } else {
                let since = entry.time.duration_since(begin).unwrap_or_default().as_secs_f64();
                say!("{since:10.3} s  {entry}");
            }
        }
        Ok(())
    }
}

/// Bytes that are read at once, unless a packet is longer.
const CHUNK: usize = 1 << 20;
