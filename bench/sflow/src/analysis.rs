//! One shard of the analyser in this process: what a worker does with each batch, without sockets.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Result, ensure};
use nix::time::{ClockId, clock_gettime};
use weir_sflow::config::Settings;
use weir_sflow::fate::Fate;
use weir_sflow::shard::{Names, Now, Shards};

use crate::load::Load;

/// A shard, and the time it believes in.
pub(crate) struct Analysis {
    shards: Shards,
    now: Now,
    batch: Vec<u8>,
    ends: Vec<usize>,
    ticked: u64,
}

/// What a run took.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Work {
    pub(crate) datagrams: u64,
    analysed: u64,
    /// CPU time of the shard alone.
    pub(crate) cpu: Duration,
}

impl Work {
    /// CPU time a datagram, ns.
    pub(crate) fn cost(&self) -> f64 {
        self.cpu.as_nanos() as f64 / self.datagrams as f64
    }
}

impl Analysis {
    /// With this configuration.
    pub(crate) fn new(configuration: &str) -> Result<Analysis> {
        let settings = Settings::read("bench", configuration)?;
        let shards = Shards::new(&settings, Names::read(&settings)?);
        let now = shards.start();
        Ok(Analysis { shards, now, batch: Vec::new(), ends: Vec::new(), ticked: 0 })
    }

    /// Analyses so many datagrams, which come at `rate` a second by its clock.
    ///
    /// # Errors
    /// Some of them were not taken into account.
    pub(crate) fn feed(&mut self, load: &mut Load, datagrams: u64, rate: f64) -> Result<Work> {
        let work = self.warm_up(load, datagrams, rate)?;
        ensure!(work.analysed == work.datagrams, "{} of {} datagrams were analysed", work.analysed, work.datagrams);
        Ok(work)
    }

    /// Likewise; of many new agents the first datagrams do not count, until the agents have proven themselves.
    pub(crate) fn warm_up(&mut self, load: &mut Load, datagrams: u64, rate: f64) -> Result<Work> {
        let peer: SocketAddr = ([192, 0, 2, 1], 6343).into();
        let mut work = Work::default();
        while work.datagrams < datagrams {
            self.now.nanos += (BATCH as f64 / rate * 1e9) as u64;
            self.now.unix_ms = self.shards.start().unix_ms + (self.now.nanos - self.shards.start().nanos) / 1_000_000;
            // As the kernel copies them to a worker's buffers.
            self.batch.clear();
            self.ends.clear();
            for _ in 0..BATCH {
                let (bytes, _) = load.next((self.now.nanos / 1_000_000) as u32);
                self.batch.extend_from_slice(bytes);
                self.ends.push(self.batch.len());
            }
            let start = cpu()?;
            {
                let mut shard = self.shards.work(0);
                let mut from = 0;
                for &end in &self.ends {
                    work.analysed +=
                        u64::from(shard.datagram(&self.batch[from..end], peer, self.now) == Fate::Analysed);
                    from = end;
                }
            }
            if self.now.nanos - self.ticked > TICK {
                self.ticked = self.now.nanos;
                self.shards.tick(self.now);
            }
            work.cpu += cpu()? - start;
            work.datagrams += BATCH as u64;
        }
        Ok(work)
    }

    /// Entries of a table.
    pub(crate) fn entries(&self, table: &str) -> u64 {
        self.shards.statistics().tables.iter().find(|known| known.name == table).map_or(0, |table| table.entries)
    }
}

fn cpu() -> Result<Duration> {
    Ok(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)?.into())
}

/// Datagrams that a worker takes at once.
const BATCH: usize = 64;

/// From one look of the control side at what is over to the next, ns.
const TICK: u64 = 50_000_000;
