//! An agent as a service's room: what its control thread does, ten times a second.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use weir_service::losses::{Line, Loss, Losses};
use weir_service::names::HostNames;
use weir_service::{Fixed, Observable, Room};
use weir_trace::packets::{Fate, Means, Packets};
use weir_units::format::{counted, printable};

use crate::collectors::{Collectors, REMEDIES};
use crate::config::{Config, Origin};
use crate::drops::{Drops, EVENTS_OF_A_LOOK};
use crate::interfaces::{Interfaces, News};
use crate::ledger::Ledger;
use crate::outbox::Outbox;
use crate::sampling::Sampler;
use crate::state::State;

/// The control thread's own.
pub(crate) struct Agent<'a> {
    origin: &'a Origin,
    config: Config,
    parts: Parts,
    collectors: Collectors,
    sampler: Sampler,
    drops: Drops,
    outbox: Outbox,
    /// The address by which collectors know us, once one could be reached.
    agent: Option<IpAddr>,
    started: Instant,
    looked: Instant,
    /// When everything is read, and what is lost told.
    due: Instant,
    ended: bool,
    /// By what packets are sampled; `None`: they are not.
    means: Option<Means>,
    datagrams: u64,
    bytes: u64,
    losses: Losses,
    /// When what fails is told again.
    complain: Instant,
    /// Interfaces beyond those that can be sampled were told.
    told_beyond: bool,
    /// That none is called as wanted was told.
    told_none: bool,
}

/// What was opened while there were privileges, and what others have a part in.
pub(crate) struct Parts {
    pub(crate) interfaces: Interfaces,
    pub(crate) packets: Option<Packets>,
    pub(crate) names: HostNames,
    pub(crate) state: Arc<State>,
}

impl Room for Agent<'_> {
    type News = Infallible;
    type State = State;
    const ENDING: &'static str = "sending the last samples";

    fn state(&self) -> Arc<State> {
        self.parts.state.clone()
    }

    fn status(&self) -> String {
        let drops = self.parts.packets.as_ref().is_some_and(Packets::drops);
        let agent = self.agent.map_or_else(|| "no address yet".to_owned(), |agent| agent.to_string());
        format!(
            "{}, {}, agent {agent}, packets {}, drops {}",
            counted(self.collectors.len(), "collector"),
            counted(self.parts.interfaces.len(), "interface"),
            match self.means.filter(|_| self.config.samples_packets()) {
                Some(Means::Program) => "sampled",
                Some(Means::Classic) => "sampled by classic filters",
                None => "not sampled",
            },
            if drops && self.config.most_drops() > 0 { "told" } else { "not told" },
        )
    }

    fn begin(&mut self) -> Instant {
        self.step();
        Instant::now() + LOOKS_APART
    }

    fn look(&mut self) -> Option<Instant> {
        if self.parts.names.changed() {
            self.follow_collectors();
        }
        self.step();
        Some(Instant::now() + LOOKS_APART)
    }

    fn reload(&mut self) -> Result<Fixed> {
        let config = self.origin.load()?;
        let (samples, drops, fixed) = (config.samples_packets(), config.most_drops() > 0, config.fixed());
        let packets = self.parts.packets.as_ref();
        if samples && self.means.is_none() {
            tracing::warn!("sampling stays off: it needs privileges that were given up at the start (restart for it)");
        }
        if drops && !packets.is_some_and(Packets::drops) {
            tracing::warn!("drops are not told: it needs privileges that were given up at the start (restart for it)");
        }
        if config.agent.is_some() && config.agent != self.agent {
            tracing::warn!("agent stays {}: a reload does not change it", self.address());
        }
        self.config = config;
        self.parts.names.follow(self.config.collectors());
        self.follow_collectors();
        self.parts.interfaces.look_again();
        self.step();
        Ok(fixed)
    }

    /// What has been sampled and dropped until now is sent.
    fn end(&mut self) {
        if let Some(packets) = &mut self.parts.packets {
            packets.stop();
        }
        self.ended = true;
        self.step();
    }
}

impl<'a> Agent<'a> {
    pub(crate) fn new(origin: &'a Origin, config: Config, parts: Parts) -> Self {
        let now = Instant::now();
        let means = parts.packets.as_ref().and_then(Packets::means);
        let mut agent = Self {
            origin,
            config,
            parts,
            collectors: Collectors::default(),
            sampler: Sampler::default(),
            drops: Drops::default(),
            outbox: Outbox::new(now),
            agent: None,
            started: now,
            looked: now,
            due: now,
            ended: false,
            means,
            datagrams: 0,
            bytes: 0,
            losses: Losses::new(LOSSES_APART, now),
            complain: now,
            told_beyond: false,
            told_none: false,
        };
        agent.follow_collectors();
        agent
    }

    pub(crate) fn ledger(&self) -> Ledger {
        self.parts.state.ledger()
    }

    fn follow_collectors(&mut self) {
        self.collectors.follow(self.config.collectors(), &self.parts.names);
        self.choose_address();
    }

    /// The address stays what it is from the first datagram that somebody may get on: collectors tell agents apart by it.
    fn choose_address(&mut self) {
        if self.agent.is_none() {
            self.agent = self.collectors.source().map(|source| self.config.agent.unwrap_or(source));
        }
    }

    fn address(&self) -> IpAddr {
        self.agent.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED))
    }

    /// A look; what fails in it fails again in the next, and is told once in a while.
    fn step(&mut self) {
        let now = Instant::now();
        if let Err(error) = self.try_step(now)
            && now >= self.complain
        {
            tracing::warn!("{error:#} (tried again)");
            self.complain = now + LOSSES_APART;
        }
        let address = self.address();
        let (collectors, datagrams, bytes) = (&mut self.collectors, &mut self.datagrams, &mut self.bytes);
        self.outbox.flush(address, now, |datagram| {
            *datagrams += 1;
            *bytes += datagram.len() as u64;
            collectors.send(datagram);
        });
        if now >= self.due || self.ended {
            self.due = now + READINGS_APART;
            self.collectors.reopen();
            self.choose_address();
            self.losses.lines(now, losses(&self.collectors)).iter().for_each(Line::log);
            let ledger = self.count(now);
            self.parts.state.set(ledger, self.parts.interfaces.unlisted.clone().or_else(|| self.missing()));
        }
        self.looked = now;
    }

    fn try_step(&mut self, now: Instant) -> Result<()> {
        if !self.ended {
            let news = self.parts.interfaces.look(now, &self.config.interfaces);
            // The machine is counted even where its interfaces cannot be listed.
            let polled = self.parts.interfaces.poll(now, self.config.polling.duration(), &mut self.outbox);
            self.follow_interfaces(news?)?;
            self.tell_none();
            polled?;
        }
        let Some(packets) = &mut self.parts.packets else { return Ok(()) };
        let (sampler, drops) = (&mut self.sampler, &mut self.drops);
        let taken = packets.take(|packet| match packet.fate {
            Fate::Sampled { .. } => sampler.hold(&packet),
            Fate::Discarded { .. } => drops.hold(&packet),
        });
        sampler.write(packets, &self.collectors, &mut self.outbox)?;
        let elapsed = now.duration_since(self.looked);
        drops.write(
            packets,
            (self.config.most_drops(), elapsed.max(LOOKS_APART)),
            &self.collectors,
            &mut self.outbox,
        )?;
        taken?;
        if !self.ended {
            sampler.shed(packets, self.config.most_samples(), elapsed)?;
            if packets.drops() {
                packets.tell_drops(if self.config.most_drops() > 0 { EVENTS_OF_A_LOOK } else { 0 })?;
            }
        }
        Ok(())
    }

    fn follow_interfaces(&mut self, news: News) -> Result<()> {
        let Some(packets) = self.parts.packets.as_mut().filter(|packets| packets.samples()) else { return Ok(()) };
        for index in news.gone {
            self.sampler.leave(packets, index)?;
        }
        for there in news.there {
            let rate = self.config.rate(there.speed_mbit);
            if !self.sampler.follow(packets, there.index, rate, there.ethernet)? && !self.told_beyond {
                self.told_beyond = true;
                let (name, most) = (printable(&there.name), packets.most_interfaces());
                tracing::warn!("{name} and others are not sampled: {most} interfaces are (name some: interfaces)");
            }
        }
        Ok(())
    }

    fn tell_none(&mut self) {
        let missing = self.missing();
        if let Some(missing) = missing.as_ref().filter(|_| !self.told_none) {
            tracing::warn!("{missing}: none is counted or sampled until one comes (`ip link` lists them)");
        }
        self.told_none = missing.is_some();
    }

    /// That there is none of the interfaces that are wanted by name.
    fn missing(&self) -> Option<String> {
        let names: Vec<String> =
            self.config.interfaces.iter().map(|pattern| format!("`{}`", printable(&pattern.0))).collect();
        let is_missing = self.parts.interfaces.len() == 0 && !names.is_empty();
        is_missing.then(|| format!("no interface is called {}", names.join(" or ")))
    }

    fn count(&mut self, now: Instant) -> Ledger {
        let packets = self.parts.packets.as_ref();
        let drops = packets.filter(|packets| packets.drops());
        let ended = self.ended;
        Ledger {
            elapsed_s: now.duration_since(self.started).as_secs_f64(),
            agent: self.agent.map(|agent| agent.to_string()),
            interfaces: self.parts.interfaces.len(),
            sampled_interfaces: self.sampler.len(),
            datagrams: self.datagrams,
            bytes: self.bytes,
            counter_samples: self.parts.interfaces.samples,
            sampling: packets
                .zip(self.means)
                .and_then(|(packets, means)| self.sampler.count(packets, means, ended).ok()),
            drops: drops.and_then(|packets| self.drops.count(packets, ended).ok()),
            collectors: self.collectors.counts(),
            ..Ledger::default()
        }
        .close()
    }
}

/// Datagrams that no collector gets, each reason with its remedy, for the log.
fn losses(collectors: &Collectors) -> Vec<Loss> {
    let of = |(reason, remedy): (&'static str, &'static str)| {
        collectors.counts().into_iter().map(move |count| Loss {
            subject: format!("collector {}", count.name),
            reason,
            remedy,
            unit: "datagram",
            total: count.dropped.get(reason).copied().unwrap_or(0),
        })
    };
    REMEDIES.into_iter().flat_map(of).collect()
}

/// From one look to the next: no sample is older when it leaves.
const LOOKS_APART: Duration = Duration::from_millis(100);

/// From one look at what is lost, and at collectors that could not be reached, to the next.
const READINGS_APART: Duration = Duration::from_secs(1);

/// From one line about what is lost to the next.
const LOSSES_APART: Duration = Duration::from_secs(10);
