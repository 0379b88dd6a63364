//! Samples of what was dropped, as the programs kept them.

use std::time::{Duration, SystemTime};

use aya::maps::{Array, HashMap as KernelMap};

use super::programs::Programs;
use super::symbols::Symbols;
use super::sys::{SampleValue, SampledKey};
use super::totals::{now, unreadable};
use super::types::Reasons;
use weir_kernel::Error;

/// A buffer that was dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// When.
    pub time: SystemTime,
    /// As [`super::Drop::reason`].
    pub reason: String,
    /// As [`super::Drop::function`].
    pub function: String,
    /// As [`super::Drop::namespace`].
    pub namespace: u32,
    /// As [`super::Drop::interface`].
    pub interface: u32,
    /// As [`super::Drop::cookie`].
    pub cookie: u64,
    /// As [`super::Drop::port`].
    pub port: u16,
    /// As [`super::Drop::from_port`].
    pub from_port: u16,
    /// As [`super::Drop::outgoing`].
    pub outgoing: bool,
    /// Bytes of the packet, from its IP header on; of a joined one all of them.
    pub length: u32,
    /// The first of these, at most 128.
    pub bytes: Vec<u8>,
    /// Functions that called one another, that which dropped it first; empty where /proc/kallsyms is hidden.
    pub stack: Vec<String>,
}

/// Samples, and how many buffers they stand for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Samples {
    /// In the order in which they were taken.
    pub samples: Vec<Sample>,
    /// Buffers that were dropped where samples are taken, those among them.
    pub met: u64,
}

/// At most so many of all places together.
pub(super) const MOST: u32 = 4096;

pub(super) fn read(programs: &Programs, symbols: &mut Symbols, reasons: &Reasons) -> Result<Samples, Error> {
    let sampled = KernelMap::<_, SampledKey, u64>::try_from(programs.map("sampled")?).map_err(unreadable)?;
    let met = sampled.iter().filter_map(Result::ok).map(|(_, met)| met).sum();
    let taken = Array::<_, u64>::try_from(programs.map("samples_taken")?).map_err(unreadable)?;
    let taken = taken.get(&0, 0).map_err(unreadable)?;
    let map = Array::<_, SampleValue>::try_from(programs.map("samples")?).map_err(unreadable)?;
    let taken = u32::try_from(taken).unwrap_or(u32::MAX).min(map.len());
    let (wall, clock) = (SystemTime::now(), now());
    let mut values: Vec<SampleValue> = Vec::new();
    for slot in 0..taken {
        values.extend(Some(map.get(&slot, 0).map_err(unreadable)?).filter(|value| value.ready != 0));
    }
    let addresses = |value: &SampleValue| {
        // Before the function that dropped it there are our program and how it was called.
        let frames = value.stack.iter().copied().take_while(|frame| *frame != 0).collect::<Vec<u64>>();
        let first = frames.iter().position(|frame| *frame == value.location);
        first.map_or_else(Vec::new, |first| frames[first..].to_vec())
    };
    symbols.learn(values.iter().flat_map(|value| addresses(value).into_iter().chain([value.location])));
    let sample = |value: &SampleValue| {
        let names = addresses(value).into_iter().map(|frame| symbols.name(frame).to_owned());
        let bytes = value.captured.min(value.bytes.len() as u32) as usize;
        Sample {
            time: wall - Duration::from_nanos(clock.saturating_sub(value.time)),
            reason: reasons.name(value.reason).into_owned(),
            function: symbols.name(value.location).to_owned(),
            namespace: value.namespace,
            interface: value.interface,
            cookie: value.cookie,
            port: value.port,
            from_port: value.from_port,
            outgoing: value.outgoing != 0,
            length: value.length,
            bytes: value.bytes[..bytes].to_vec(),
            stack: names.take_while(|name| !name.is_empty()).collect(),
        }
    };
    Ok(Samples { samples: values.iter().map(sample).collect(), met })
}
