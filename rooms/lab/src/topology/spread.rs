//! Loss and delay of the whole path, spread over its links, in both directions.

use weir_emulator::model;

use super::{Path, Topology};
use crate::scenario::Scenario;

/// Gives each direction of a link on the path its share, unless the link has its own value; a step keeps its own
/// values.
pub(super) fn spread(topology: &mut Topology, scenario: &Scenario) {
    let path = &scenario.path;
    let Path { forward, backward } = &topology.traffic.paths[0];
    for hops in [forward, backward] {
        for &(index, way) in hops {
            let link = &mut topology.links[index];
            let Some(written) = scenario.links.get(&link.name) else { continue };
            let own = &written.directions()[way as usize];
            let named = std::iter::once(own).chain(own.steps().iter().map(|step| &step.values));
            for (impairments, named) in link.impairments[way as usize].phases_mut().zip(named) {
                if let (Some(loss), None, None) = (path.loss, &own.loss, &named.loss) {
                    let share = 1.0 - (1.0 - loss.fraction()).powf(1.0 / hops.len() as f64);
                    impairments.loss = if share > 0.0 { model::Loss::Bernoulli(share) } else { model::Loss::None };
                }
                if let (Some(delay), None, None) = (path.delay, own.delay, named.delay) {
                    impairments.delay = delay.duration() / hops.len() as u32;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::Sweep;

    /// What is lost on each of two links forward, in hundredths of a percent, and what both delay, ms.
    fn first(set: &[(&str, &str)]) -> ([f64; 2], [u128; 2]) {
        let set: Vec<_> = set.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let (origin, text) = Scenario::find("telemetry").unwrap();
        let topology = Sweep::new(&origin, &text, &set).unwrap().topology().unwrap();
        let hops = &topology.traffic.paths[0].forward;
        let of = |hop: usize| &topology.links[hops[hop].0].impairments[hops[hop].1 as usize].first;
        let loss = |hop| (of(hop).loss.mean() * 1e4).round();
        ([loss(0), loss(1)], [of(0).delay.as_millis(), of(1).delay.as_millis()])
    }

    #[test]
    fn a_link_has_its_own_value_or_its_share() {
        let path = [("path.loss", "19%"), ("path.delay", "8ms")];
        // 1 - 0.9 * 0.9.
        assert_eq!(first(&path), ([1000.0, 1000.0], [4, 4]));
        for (key, loss) in [
            ("links.uplink.forward.loss", "30%"),
            ("links.uplink.loss", "30%"),
            // Nothing is a value.
            ("links.uplink.loss", "0%"),
        ] {
            let own = if loss == "0%" { 0.0 } else { 3000.0 };
            assert_eq!(first(&[&path[..], &[(key, loss)]].concat()), ([own, 1000.0], [4, 4]), "{key}");
        }
        assert_eq!(first(&[&path[..], &[("links.uplink.backward.loss", "30%")]].concat()).0, [1000.0, 1000.0]);
        let links = [("path.loss", "0%"), ("links.uplink.forward.loss", "30%"), ("links.uplink.delay", "5ms")];
        assert_eq!(first(&links), ([3000.0, 0.0], [5, 0]));
    }
}
