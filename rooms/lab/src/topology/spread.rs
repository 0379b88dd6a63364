//! Loss and delay of the whole path, spread over its links, there and back.

use anyhow::{Result, ensure};
use weir_emulator::model;

use super::{Path, Topology};
use crate::scenario::{LinkDirection, Scenario};

/// Gives each link of the path its share. A link that has a value of its own is refused, unless one of the two was set
/// `by_hand`, in the order of these keys: then the one that was set later holds. A step has what it names instead.
pub(super) fn spread(topology: &mut Topology, scenario: &Scenario, by_hand: &[String]) -> Result<()> {
    let path = &scenario.path;
    let Path { forward, backward } = &topology.traffic.paths[0];
    for hops in [forward, backward] {
        for &(index, way) in hops {
            let link = &mut topology.links[index];
            let Some(written) = scenario.links.get(&link.name) else { continue };
            let own = &written.directions()[way as usize];
            let first = &link.impairments[way as usize].first;
            let (lossy, slow) = (first.loss != model::Loss::None, !first.delay.is_zero());
            let gets = |quantity, state| gets(&link.name, way, quantity, by_hand, state);
            let (mut loss, mut delay) = (path.loss, path.delay);
            if let Some(whole) = loss {
                loss = gets("loss", [whole.fraction() > 0.0, own.loss.is_some(), lossy])?.then_some(whole);
            }
            if let Some(whole) = delay {
                delay = gets("delay", [!whole.duration().is_zero(), own.delay.is_some(), slow])?.then_some(whole);
            }
            let steps = own.steps().iter().map(|step| Some(&step.values));
            let named = std::iter::once(None).chain(steps);
            for (impairments, step) in link.impairments[way as usize].phases_mut().zip(named) {
                let names = |what: &dyn Fn(&LinkDirection) -> bool| step.is_some_and(what);
                if let Some(loss) = loss.filter(|_| !names(&|step| step.loss.is_some())) {
                    let share = 1.0 - (1.0 - loss.fraction()).powf(1.0 / hops.len() as f64);
                    impairments.loss = if share > 0.0 { model::Loss::Bernoulli(share) } else { model::Loss::None };
                }
                if let Some(delay) = delay.filter(|_| !names(&|step| step.delay.is_some())) {
                    impairments.delay = delay.duration() / hops.len() as u32;
                }
            }
        }
    }
    Ok(())
}

/// Whether a direction of a link (`name.way`) gets its share of a quantity that the path has. `any`: the path has more than nothing of
/// it; `named`: the link names it, be it as nothing; `does`: it has some.
fn gets(
    name: &str,
    way: model::Way,
    quantity: &str,
    by_hand: &[String],
    [any, named, does]: [bool; 3],
) -> Result<bool> {
    let one_way = format!("{name}.{}", ["forward", "backward"][way as usize]);
    let of_link = [name.to_owned(), format!("{name}.{quantity}"), format!("{one_way}.{quantity}"), one_way];
    let link_set = by_hand
        .iter()
        .rposition(|key| key.strip_prefix("links.").is_some_and(|key| of_link.iter().any(|own| own == key)));
    let path_set = by_hand.iter().rposition(|key| key.strip_prefix("path.") == Some(quantity));
    if link_set.is_none() && path_set.is_none() {
        ensure!(
            !(any && does),
            "path.{quantity} and links.{name}.{quantity} are both set: keep one of them (a path.{quantity} of 0 leaves it to the \
             links)"
        );
        return Ok(!does);
    }
    Ok(path_set >= link_set || !named)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::Sweep;

    /// What is lost on each of two links forward, in hundredths of a percent, and what both delay, ms.
    fn first(set: &[(&str, &str)], by_hand: &[&str]) -> Result<([f64; 2], [u128; 2])> {
        let set: Vec<_> = set.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let (origin, text) = Scenario::find("telemetry")?;
        let sweep = Sweep::new(&origin, &text, &set)?;
        let by_hand: Vec<String> = by_hand.iter().map(|&key| key.to_owned()).collect();
        let topology = Topology::changed(sweep.scenario(), &by_hand)?;
        let hops = &topology.traffic.paths[0].forward;
        let of = |hop: usize| &topology.links[hops[hop].0].impairments[hops[hop].1 as usize].first;
        let loss = |hop| (of(hop).loss.mean() * 1e4).round();
        Ok(([loss(0), loss(1)], [of(0).delay.as_millis(), of(1).delay.as_millis()]))
    }

    #[test]
    fn a_path_of_nothing_leaves_it_to_the_links() {
        let set = [("path.loss", "0%"), ("links.uplink.forward.loss", "30%"), ("links.uplink.delay", "5ms")];
        assert_eq!(first(&set, &[]).unwrap(), ([3000.0, 0.0], [5, 0]));
        let both = [("path.loss", "19%"), ("links.uplink.forward.loss", "30%")];
        let error = first(&both, &[]).unwrap_err().to_string();
        let expected =
            "path.loss and links.uplink.loss are both set: keep one of them (a path.loss of 0 leaves it to the links)";
        assert_eq!(error, expected);
    }

    #[test]
    fn of_what_was_set_by_hand_the_later_holds() {
        // 1 - 0.9 * 0.9.
        let share = 1000.0;
        let set = [("path.loss", "19%"), ("path.delay", "8ms"), ("links.uplink.forward.loss", "30%")];
        let (path, link) = ("path.loss", "links.uplink.forward.loss");
        assert_eq!(first(&set, &[link]).unwrap(), ([3000.0, share], [4, 4]));
        assert_eq!(first(&set, &[path, link]).unwrap().0, [3000.0, share]);
        assert_eq!(first(&set, &[link, path]).unwrap().0, [share, share]);
        // Something else, or somewhere else, was.
        for other in ["links.uplink.forward.delay", "links.uplink.backward.loss", "links.downlink.loss", "path.delay"] {
            assert!(first(&set, &[other]).is_err(), "{other}");
        }
        // As the documents have it, both ways, and one link alone.
        let both = [("path.loss", "19%"), ("links.uplink.loss", "30%")];
        assert_eq!(first(&both, &["links.uplink.loss"]).unwrap().0, [3000.0, share]);
        let (origin, text) = Scenario::find("telemetry").unwrap();
        for (key, backward) in [("links.uplink.loss", 0.3), ("links.uplink.forward.loss", 0.0)] {
            let sweep = Sweep::new(&origin, &text, &[(key.to_owned(), "30%".to_owned())]).unwrap();
            let topology = Topology::changed(sweep.scenario(), &[key.to_owned()]).unwrap();
            let uplink = topology.links.iter().find(|link| link.name == "uplink").unwrap();
            let losses = [0, 1].map(|way| uplink.impairments[way].first.loss.mean());
            assert!((losses[0] - 0.3).abs() < 1e-9 && (losses[1] - backward).abs() < 1e-9, "{key}: {losses:?}");
        }
        // Nothing, said by hand, is a value; a link that says nothing has its share.
        let nothing = [("path.loss", "19%"), ("links.uplink.loss", "0%")];
        assert_eq!(first(&nothing, &["links.uplink.loss"]).unwrap().0, [0.0, share]);
        assert_eq!(first(&[("path.loss", "19%")], &["links.uplink"]).unwrap().0, [share, share]);
    }
}
