//! Agents as they are kept over a restart.

use std::io;

use super::{Kept, Shards};

impl Shards {
    /// Hands over every agent that is known as bytes: a list of `Option<Kept>` whose end is not written.
    ///
    /// # Errors
    /// Those of `write`, which end it.
    pub(crate) fn keep(&self, mut write: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        let mut bytes = Vec::new();
        for shard in &self.shards {
            let mut from = Some(0);
            while let Some(slot) = from {
                bytes.clear();
                from = shard.lock().keep(slot, &mut bytes).map_err(io::Error::other)?;
                write(&bytes)?;
            }
        }
        Ok(())
    }

    /// Knows an agent again; whether it is heard by now and there is room for it.
    pub(crate) fn take_over(&self, kept: Kept) -> bool {
        self.of(kept.agent.identity.address, |shard| shard.take_over(kept))
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use weir_wire::sflow::encode::{self, Flow, Header};
    use weir_wire::sflow::{DataFormat, DataSource, Interface};

    use super::super::{Names, Now};
    use super::*;
    use crate::config::Settings;

    fn shards(workers: usize) -> Shards {
        let text = format!("workers = {workers}\n[[listener]]\naddress = \"127.0.0.1:6343\"\n");
        let settings = Settings::read("test", &text).unwrap();
        Shards::new(&settings, Names::read(&settings).unwrap())
    }

    /// Counters and a flow sample of an interface of a switch that has carried much.
    fn datagram(agent: IpAddr, sequence: u32, index: u32) -> Vec<u8> {
        let source = DataSource { class: 0, index };
        let mut out = Vec::new();
        let header = Header { agent, sub_agent: 0, sequence, uptime: 86_400_000 + 10 * sequence };
        let mut samples = encode::datagram(&mut out, &header);
        let mut body = [index, 6].map(u32::to_be_bytes).concat();
        body.extend(10_000_000_000_u64.to_be_bytes());
        body.extend([1_u32, 3].map(u32::to_be_bytes).concat());
        for _ in 0..2 {
            body.extend(123_456_789_012_345_u64.to_be_bytes());
            body.extend([3_210_987_654_u32, 12_345_678, 1_234_567, 1_234, 12, 0].map(u32::to_be_bytes).concat());
        }
        body.resize(88, 0);
        let counters = encode::Counters { sequence: 4711, source, expanded: false };
        samples.counters(&counters).raw(DataFormat { enterprise: 0, format: 1 }, &body);
        let (input, output) = (Interface::Index(index), Interface::Index(index + 1));
        let (sampling_rate, sample_pool) = (4096, 4_000_000_000);
        samples.flow(&Flow {
            sequence: 1_000_000,
            source,
            sampling_rate,
            sample_pool,
            drops: 0,
            input,
            output,
            expanded: false,
        });
        out
    }

    fn bytes(shards: &Shards) -> Vec<u8> {
        let mut all = Vec::new();
        shards
            .keep(|bytes| {
                all.extend_from_slice(bytes);
                Ok(())
            })
            .unwrap();
        all
    }

    /// What docs/sflow-state.md says of its size, and that nothing is lost on the way into other shards and back.
    #[test]
    fn agents_come_back_as_they_were() {
        const AGENTS: u32 = 1_000;
        const INTERFACES: u32 = 20;
        let (first, peer, now) = (shards(2), "127.0.0.1:1".parse().unwrap(), Now::read());
        for agent in 0..AGENTS {
            let address = IpAddr::from((0x0a00_0000 + agent).to_be_bytes());
            for index in 1..=INTERFACES {
                let number = first.number(address);
                first.work(number).datagram(&datagram(address, index, index), peer, now);
            }
        }
        let kept = bytes(&first);
        let each = kept.len() / (AGENTS * INTERFACES) as usize;
        assert!((100..=220).contains(&each), "{each} bytes an interface");

        let take_over = |kept: &[u8], shards: &Shards| {
            let mut rest = kept;
            while !rest.is_empty() {
                let (agent, behind) = postcard::take_from_bytes::<Option<Kept>>(rest).unwrap();
                assert!(shards.take_over(agent.unwrap()));
                rest = behind;
            }
        };
        let (three, two) = (shards(3), shards(2));
        take_over(&kept, &three);
        take_over(&bytes(&three), &two);
        let sorted = |shards: &Shards| {
            let statistics = shards.statistics();
            let entries = statistics.tables.iter().map(|table| table.entries).collect::<Vec<_>>();
            (entries, bytes(shards).len())
        };
        let ((before, length), (after, again)) = (sorted(&first), sorted(&two));
        assert_eq!(before, after);
        // Streams have other numbers, which may be longer.
        assert!(length.abs_diff(again) < length / 50, "{length} and {again}");
    }
}
