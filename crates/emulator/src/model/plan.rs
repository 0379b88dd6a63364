//! Impairments that change at set times.

use std::time::Duration;

use super::delay::nanos;
use super::timetable::Timetable;
use super::{Impairments, InvalidImpairment, Probability};

/// The impairments of one direction of a link over time.
///
/// Time 0 is set by [`Direction::start_clock`](super::Direction::start_clock); before it the first impairments hold.
///
/// - The impairments at a packet's *arrival* apply to it in all stages but one: a change of `rate` or `trace` also
///   affects waiting packets, as on a link whose capacity changes.
/// - A step does not drop, duplicate or reorder packets. A queue that shrinks keeps its packets and accepts no more
///   until there is room; if order is kept and the delay shrinks, packets do not leave before those ahead of them.
/// - Random sequences continue: a packet's draws depend on its index in its flow, and a step changes only the
///   thresholds. A Gilbert-Elliott chain pauses while another kind of loss applies.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// From the beginning to the first step.
    pub first: Impairments,
    /// Each replaces the impairments before it; ascending.
    pub steps: Vec<Step>,
    /// Time from time 0 after which the plan starts again. `None`: the last step stays. Traces have their own periods
    /// and continue.
    pub repeat: Option<Duration>,
}

/// A change of a direction's impairments.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// When it takes effect, counted from time 0.
    pub after: Duration,
    /// All impairments from then on.
    pub impairments: Impairments,
}

impl From<Impairments> for Plan {
    fn from(first: Impairments) -> Self {
        Plan { first, steps: Vec::new(), repeat: None }
    }
}

impl Plan {
    /// Checks every setting of every phase, and that the steps' times ascend and are before the repetition.
    ///
    /// # Errors
    /// The first invalid setting.
    pub fn validate(&self) -> Result<(), InvalidImpairment> {
        self.first.validate()?;
        let mut before = Duration::ZERO;
        for (index, step) in self.steps.iter().enumerate() {
            if step.after <= before {
                return Err(InvalidImpairment::StepTime { index, after: step.after, before });
            }
            before = step.after;
            step.impairments
                .validate()
                .map_err(|invalid| InvalidImpairment::Step { index, invalid: Box::new(invalid) })?;
        }
        match self.repeat {
            Some(repeat) if repeat <= before => Err(InvalidImpairment::Repeat { repeat, last: before }),
            _ => Ok(()),
        }
    }

    /// Whether packets always pass unchanged.
    pub fn is_transparent(&self) -> bool {
        self.phases().all(Impairments::is_transparent)
    }

    /// The impairments of each phase, the first ones first.
    pub fn phases(&self) -> impl Iterator<Item = &Impairments> {
        std::iter::once(&self.first).chain(self.steps.iter().map(|step| &step.impairments))
    }

    /// The same, mutable.
    pub fn phases_mut(&mut self) -> impl Iterator<Item = &mut Impairments> {
        std::iter::once(&mut self.first).chain(self.steps.iter_mut().map(|step| &mut step.impairments))
    }

    /// [`Loss::mean`](super::Loss::mean) averaged over this time from time 0 on: the share lost of evenly flowing
    /// traffic. For zero time: that of the plan's beginning.
    pub fn mean_loss(&self, over: Duration) -> Probability {
        self.mean(over, |impairments| impairments.loss.mean())
    }

    /// The delay with the mean of its variation, over this time from time 0 on, without reordering.
    pub fn mean_delay(&self, over: Duration) -> Duration {
        let delay = |impairments: &Impairments| {
            let varies =
                impairments.variation.as_ref().map_or(Duration::ZERO, |variation| variation.distribution.mean());
            (impairments.delay + varies).as_secs_f64()
        };
        Duration::from_secs_f64(self.mean(over, delay))
    }

    /// Bits per second of `rate` or `trace`, averaged over this time from time 0 on, a trace by its own mean. `None`:
    /// there is no limit for some of the time.
    pub fn mean_rate(&self, over: Duration) -> Option<f64> {
        let rate = |impairments: &Impairments| match (&impairments.trace, impairments.rate) {
            (Some(trace), _) => trace.mean_bits_per_second(),
            (None, Some(rate)) => rate.bits_per_second as f64,
            (None, None) => f64::INFINITY,
        };
        Some(self.mean(over, rate)).filter(|mean| mean.is_finite())
    }

    /// The mean of `value`, each phase weighted by its duration within `over`.
    fn mean(&self, over: Duration, value: impl Fn(&Impairments) -> f64) -> f64 {
        let over = nanos(over);
        if over == 0 || self.steps.is_empty() {
            return value(&self.first);
        }
        let (phases, timetable) = Timetable::new(self);
        let all: Vec<&Impairments> = self.phases().collect();
        let shares = timetable.shares(over);
        // A phase without duration must not count, even if unlimited.
        let held = phases.iter().zip(shares).filter(|&(_, share)| share > 0);
        held.map(|(&phase, share)| value(all[phase]) * share as f64).sum::<f64>() / over as f64
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Distribution, Loss, Order, Rate, Variation};
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn averages_weigh_phases_by_their_time() {
        let impairments = |percent: u32, rate: u64| Impairments {
            loss: Loss::Bernoulli(f64::from(percent) / 100.0),
            delay: SECOND * percent,
            rate: Some(Rate { bits_per_second: rate, burst_bytes: 0 }),
            ..Impairments::default()
        };
        let step = |after, impairments| Step { after: SECOND * after, impairments };
        let steps = vec![step(2, impairments(8, 400)), step(3, impairments(0, 1000))];
        let mut plan = Plan { first: impairments(2, 100), steps, repeat: None };
        assert_eq!((plan.mean_loss(SECOND), plan.mean_rate(SECOND)), (0.02, Some(100.0)));
        // 2 s of 2, 1 s of 8, 1 s of 0.
        assert_eq!((plan.mean_loss(SECOND * 4), plan.mean_delay(SECOND * 4)), (0.03, SECOND * 3));
        assert_eq!(plan.mean_rate(SECOND * 4), Some(400.0));
        // Twice that, and 2 s more of 2.
        plan.repeat = Some(SECOND * 4);
        assert_eq!(plan.mean_delay(SECOND * 10), SECOND * 28 / 10);
        assert_eq!(plan.mean_loss(Duration::ZERO), 0.02);
        plan.steps[1].impairments.rate = None;
        assert_eq!(plan.mean_rate(SECOND * 3), Some(200.0), "the unlimited phase has not come yet");
        assert_eq!(plan.mean_rate(SECOND * 4), None);
    }

    #[test]
    fn a_variation_delays_by_its_mean() {
        let ms = Duration::from_millis;
        let mean = |distribution| {
            let variation = Some(Variation { distribution, order: Order::Keep });
            Plan::from(Impairments { delay: ms(7), variation, ..Impairments::default() }).mean_delay(SECOND)
        };
        assert_eq!(mean(Distribution::Uniform(ms(40))), ms(27));
        assert_eq!(mean(Distribution::Exponential(ms(3))), ms(10));
        assert_eq!(mean(Distribution::Normal(ms(30), ms(1))), ms(37));
        assert_eq!(mean(Distribution::Normal(ms(30), ms(0))), ms(37));
        // Half of it is put at 0: 100 ms divided by the root of tau; where a sixth is, 1.0833 ms.
        for (distribution, added) in
            [(Distribution::Normal(ms(0), ms(100)), 39.894_228), (Distribution::Normal(ms(1), ms(1)), 1.083_315)]
        {
            let mean = mean(distribution).as_secs_f64() * 1e3;
            assert!((mean - 7.0 - added).abs() < 1e-4, "{mean}");
        }
    }

    #[test]
    fn nonsense_is_named_with_its_step() {
        let step = |seconds, loss| {
            let impairments = Impairments { loss: Loss::Bernoulli(loss), ..Impairments::default() };
            Step { after: SECOND * seconds, impairments }
        };
        let plan = |steps: &[Step], repeat: Option<u32>| Plan {
            first: Impairments::default(),
            steps: steps.to_vec(),
            repeat: repeat.map(|seconds| SECOND * seconds),
        };
        let nonsense = [
            plan(&[step(1, 0.5), step(2, 1.5)], None),
            plan(&[step(0, 0.5)], None),
            plan(&[step(5, 0.5), step(5, 0.1)], None),
            plan(&[step(5, 0.5), step(2, 0.1)], None),
            plan(&[step(5, 0.5)], Some(5)),
            plan(&[], Some(0)),
            Plan::from(Impairments { duplicate: 2.0, ..Impairments::default() }),
        ];
        let message = |plan: &Plan| plan.validate().expect_err("makes no sense").to_string();
        insta::assert_snapshot!(nonsense.iter().map(message).collect::<Vec<_>>().join("\n"));
        assert_eq!(plan(&[step(1, 0.5), step(2, 1.0)], Some(3)).validate(), Ok(()));
    }
}
