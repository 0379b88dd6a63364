//! What a direction of a link does, from the words of a scenario.

use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use weir_emulator::model::{self, Changes, Impairments, Plan, Step};

use crate::scenario::{self, LinkDirection};
use crate::traces::Traces;

/// The plan of one direction: its own values, and what its steps make of them.
pub(super) fn plan(direction: &LinkDirection, traces: &Traces) -> Result<Plan> {
    ensure!(
        direction.repeat.is_none() || !direction.steps().is_empty(),
        "`repeat` needs `steps`: nothing else changes"
    );
    let step = |(index, step): (usize, &scenario::Step)| {
        let values = step.values.over(direction);
        let impairments = impairments(&values, traces).with_context(|| format!("steps[{index}]"))?;
        Ok(Step { after: step.at.into(), impairments })
    };
    Ok(Plan {
        first: impairments(direction, traces)?,
        steps: direction.steps().iter().enumerate().map(step).collect::<Result<_>>()?,
        repeat: direction.repeat.map(Into::into),
    })
}

fn impairments(direction: &LinkDirection, traces: &Traces) -> Result<Impairments> {
    ensure!(direction.burst.is_none() || direction.rate.is_some(), "`burst` needs a `rate`");
    ensure!(
        direction.queue.is_none() || direction.rate.is_some() || direction.trace.is_some(),
        "`queue` needs a `rate` or a `trace`: without one nothing waits"
    );
    let trace = |path| traces.get(path).map(Arc::clone).with_context(|| format!("trace {path:?} has not been read"));
    Ok(Impairments {
        loss: direction.loss.as_ref().map(loss).transpose()?.unwrap_or_default(),
        delay: direction.delay.map(Into::into).unwrap_or_default(),
        variation: direction.variation.as_ref().map(variation).transpose()?,
        rate: direction.rate.map(|rate| model::Rate {
            bits_per_second: rate.bits_per_second,
            burst_bytes: direction.burst.map_or(0, |burst| burst.bytes),
        }),
        trace: direction.trace.as_ref().map(trace).transpose()?,
        queue: match direction.queue {
            None => model::QueueLimit::Unlimited,
            Some(scenario::Queue::Packets(packets)) => model::QueueLimit::Packets(packets),
            Some(scenario::Queue::Bytes(size)) => model::QueueLimit::Bytes(size.bytes),
        },
        duplicate: direction.duplicate.map_or(0.0, |share| share.fraction()),
        changes: Changes::each(|change| direction.share_of(change).map_or(0.0, |share| share.fraction())),
        reorder: direction
            .reorder
            .map(|reorder| model::Reorder { probability: reorder.probability.fraction(), by: reorder.by.into() }),
    })
}

fn loss(loss: &scenario::Loss) -> Result<model::Loss> {
    Ok(match loss {
        scenario::Loss::Share(share) if share.fraction() == 0.0 => model::Loss::None,
        scenario::Loss::Share(share) => model::Loss::Bernoulli(share.fraction()),
        scenario::Loss::Mean(mean) => in_bursts(mean)?,
        scenario::Loss::Bursts(bursts) => model::Loss::GilbertElliott {
            to_bad: bursts.to_bad.fraction(),
            to_good: bursts.to_good.fraction(),
            good: bursts.good.fraction(),
            bad: bursts.bad.map_or(1.0, |bad| bad.fraction()),
        },
        scenario::Loss::List(list) => model::Loss::List(list.list.clone()),
    })
}

/// A packet turns good again with 1/burst, and bad as often as the mean wants it.
fn in_bursts(loss: &scenario::MeanLoss) -> Result<model::Loss> {
    let (mean, burst) = (loss.mean.fraction(), loss.burst);
    ensure!(burst.is_finite() && burst >= 1.0, "loss.burst of {burst}: a burst has at least 1 packet");
    let to_bad = mean / (burst * (1.0 - mean));
    ensure!(burst == 1.0 || to_bad <= 1.0, "loss: a mean of {} needs bursts longer than {burst} packets", loss.mean);
    Ok(match burst {
        _ if mean == 0.0 => model::Loss::None,
        1.0 => model::Loss::Bernoulli(mean),
        _ => model::Loss::GilbertElliott { to_bad, to_good: 1.0 / burst, good: 0.0, bad: 1.0 },
    })
}

fn variation(variation: &scenario::Variation) -> Result<model::Variation> {
    let distribution = match (variation.uniform, variation.normal, variation.exponential) {
        (Some(most), None, None) => model::Distribution::Uniform(most.into()),
        (None, Some([mean, deviation]), None) => model::Distribution::Normal(mean.into(), deviation.into()),
        (None, None, Some(mean)) => model::Distribution::Exponential(mean.into()),
        _ => bail!("variation: give exactly one of `uniform`, `normal` and `exponential`"),
    };
    let order = match variation.order {
        scenario::Order::Keep => model::Order::Keep,
        scenario::Order::Reorder => model::Order::Reorder,
    };
    Ok(model::Variation { distribution, order })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use weir_emulator::model::{Change, Loss, Rate, Trace};
    use weir_report::columns;

    use super::*;
    use crate::scenario::Link;

    /// What both directions of a link do, given its keys.
    fn plans(keys: &str) -> Result<[Plan; 2]> {
        let link: Link = toml::from_str(&format!("ends = [\"a\", \"b\"]\n{keys}"))?;
        let trace = Arc::new(Trace::parse("1")?);
        let traces = [("a.trace".into(), Arc::clone(&trace)), ("b.trace".into(), trace)].into();
        let [forward, backward] = link.directions();
        let plans = [plan(&forward, &traces)?, plan(&backward, &traces)?];
        plans.iter().try_for_each(Plan::validate)?;
        Ok(plans)
    }

    #[test]
    fn steps_replace_what_they_name() {
        let keys = r#"
            delay = "20ms"
            rate = "10mbit"
            burst = "15kB"
            queue = 50
            repeat = "20s"
            steps = [{ at = "5s", loss = "3%", delay = "50ms" }, { at = "10s" }, { at = "15s", trace = "a.trace" }]
            [backward]
            trace = "b.trace"
            steps = [{ at = "1s", rate = "1mbit", queue = "64kB" }]
        "#;
        let [forward, backward] = plans(keys).unwrap();
        let first = &forward.first;
        assert_eq!((first.delay, first.rate.unwrap().burst_bytes), (Duration::from_millis(20), 15_000));
        let steps: Vec<_> = forward.steps.iter().map(|step| (step.after.as_secs(), &step.impairments)).collect();
        let worse = Impairments { loss: Loss::Bernoulli(0.03), delay: Duration::from_millis(50), ..first.clone() };
        let by_trace = Impairments { rate: None, trace: backward.first.trace.clone(), ..first.clone() };
        assert_eq!(steps, [(5, &worse), (10, first), (15, &by_trace)]);
        assert_eq!(forward.repeat, Some(Duration::from_secs(20)));
        // The trace takes the place of the rate that it inherits, and the step's rate that of the trace.
        assert_eq!(backward.first.rate, None);
        let slow = &backward.steps[0].impairments;
        assert_eq!((slow.trace.as_ref(), slow.rate), (None, Some(Rate { bits_per_second: 1_000_000, burst_bytes: 0 })));
        assert_eq!((slow.queue, slow.delay), (model::QueueLimit::Bytes(64_000), Duration::from_millis(20)));
    }

    #[test]
    fn each_change_has_its_key_its_column_and_its_place_in_the_manual() {
        let manual = include_str!("../../../../docs/lab.md");
        for change in Change::ALL {
            let (key, column) = (change.key(), change.counter());
            let [forward, backward] = plans(&format!("{key} = \"2%\"\nbackward.{key} = \"3%\"")).unwrap();
            assert_eq!(forward.first.changes, Changes::only(change, 0.02), "links.NAME.{key}");
            assert_eq!(backward.first.changes, Changes::only(change, 0.03), "links.NAME.backward.{key}");
            assert!(columns::ADDED.iter().any(|known| known.name == column), "{column}");
            assert!(manual.contains(&format!("`{key}`")), "docs/lab.md: `{key}`");
        }
    }

    #[test]
    fn mistakes_are_told_in_one_line() {
        let mistakes = [
            "steps = [{ loss = \"3%\" }]",
            "steps = [{ at = \"5s\", los = \"3%\" }]",
            "steps = [{ at = 5 }]",
            "steps = [{ at = \"5s\", delay = \"5\" }]",
            "steps = [{ at = \"5s\" }, { at = \"2s\" }]",
            "steps = [{ at = \"5s\", repeat = \"6s\" }]",
            "steps = [{ at = \"5s\", queue = 5 }]",
            "steps = [{ at = \"5s\", rate = \"1mbit\", trace = \"a.trace\" }]",
            "steps = [{ at = \"5s\" }]\nrepeat = \"5s\"",
            "repeat = \"5s\"",
            "burst = \"1kB\"\ntrace = \"a.trace\"",
            "trace = \"none.trace\"",
        ];
        let message = |keys: &&str| {
            let error = plans(keys).unwrap_err();
            match error.downcast_ref() {
                Some(error) => weir_service::config::one_line(error),
                None => format!("{error:#}"),
            }
        };
        insta::assert_snapshot!(mistakes.iter().map(message).collect::<Vec<_>>().join("\n"));
    }

    #[test]
    fn bursts_of_any_length_lose_the_same_mean() {
        let loss = |burst| {
            let loss = scenario::MeanLoss { mean: "5%".parse().unwrap(), burst };
            in_bursts(&loss).map_err(|error| error.to_string())
        };
        assert_eq!(loss(1.0), Ok(Loss::Bernoulli(0.05)));
        for burst in [2.0, 4.0, 16.0, 100.0] {
            let Loss::GilbertElliott { to_bad, to_good, good, bad } = loss(burst).unwrap() else { panic!() };
            // The stationary share of the bad state, by its balance: as often in as out.
            assert!((to_bad * 0.95 - to_good * 0.05).abs() < 1e-12);
            assert_eq!((to_good, good, bad), (1.0 / burst, 0.0, 1.0));
        }
        assert_eq!(loss(0.5).unwrap_err(), "loss.burst of 0.5: a burst has at least 1 packet");
    }
}
