//! The impairments of a link's direction, from the keys of a scenario.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use weir_emulator::model::{self, Alterations, Impairments, Plan, Step};

use crate::scenario::{self, LinkDirection};
use crate::traces::Traces;

/// The plan of one direction: its own values, and its steps.
pub(super) fn plan(direction: &LinkDirection, traces: &Traces) -> Result<Plan> {
    ensure!(direction.repeat.is_none() || !direction.steps().is_empty(), "`repeat` needs `steps`");
    let limited = |values: &LinkDirection| values.rate.is_some() || values.trace.is_some();
    let nothing_waits = |index: Option<usize>, values: &LinkDirection| {
        let at = index.map(|index| format!("steps[{index}]: ")).unwrap_or_default();
        ensure!(values.queue.is_none() || limited(values), "{at}`queue` needs a `rate` or a `trace`");
        anyhow::Ok(())
    };
    if !direction.steps().iter().any(|step| limited(&step.values)) {
        nothing_waits(None, direction)?;
    }
    for (index, step) in direction.steps().iter().enumerate().filter(|(_, step)| step.values.queue.is_some()) {
        nothing_waits(Some(index), &step.values.over(direction))?;
    }
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
    let trace = |path| traces.get(path).map(Arc::clone).with_context(|| format!("trace {path:?} has not been read"));
    Ok(Impairments {
        loss: direction.loss.as_ref().map(scenario::Loss::model).transpose()?.unwrap_or_default(),
        delay: direction.delay.map(Into::into).unwrap_or_default(),
        variation: direction.variation.as_ref().map(scenario::Variation::model).transpose()?,
        rate: direction.rate.map(|rate| model::Rate {
            bits_per_second: rate.bits_per_second,
            burst_bytes: direction.burst.map_or(0, |burst| burst.bytes),
        }),
        trace: direction.trace.as_ref().map(trace).transpose()?,
        // Without a limit nothing is queued.
        queue: direction
            .queue
            .zip(direction.capacity(traces))
            .map(|(queue, rate)| queue.model(rate))
            .unwrap_or_default(),
        duplicate: direction.duplicate.map_or(0.0, |share| share.fraction()),
        alterations: Alterations::each(|kind| direction.share_of(kind).map_or(0.0, |share| share.fraction())),
        reorder: direction.reorder.map(scenario::Reorder::model),
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use weir_emulator::model::{Alteration, Loss, Rate, Trace};

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
    fn each_alteration_has_its_key() {
        for kind in Alteration::ALL {
            let key = kind.key();
            let [forward, backward] = plans(&format!("{key} = \"2%\"\nbackward.{key} = \"3%\"")).unwrap();
            assert_eq!(forward.first.alterations, Alterations::only(kind, 0.02), "links.NAME.{key}");
            assert_eq!(backward.first.alterations, Alterations::only(kind, 0.03), "links.NAME.backward.{key}");
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
                Some(error) => weir_program::config::one_line(error),
                None => format!("{error:#}"),
            }
        };
        insta::assert_snapshot!(mistakes.iter().map(message).collect::<Vec<_>>().join("\n"));
    }
}
