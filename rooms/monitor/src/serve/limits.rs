//! Which limit a value has passed, as EPICS has it: four limits, and a dead band to come back through.

use weir_wire::signal::Limits;

use crate::api::{Alarm, Severity};

/// Limits with the dead band (EPICS: HYST) that a value has to come back through, in what the channel measures.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Watch {
    limits: Limits,
    band: f64,
}

impl Watch {
    /// With a dead band of a share of what is between the outermost limits; of a single one, of its size.
    pub(super) fn new(limits: Limits, share: f64) -> Self {
        let all = [limits.very_low, limits.low, limits.high, limits.very_high];
        let (least, greatest) = all
            .into_iter()
            .flatten()
            .filter(|limit| limit.is_finite())
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(least, greatest), limit| {
                (least.min(limit), greatest.max(limit))
            });
        let span = if least < greatest { greatest - least } else { greatest.abs() };
        Self { limits, band: if span.is_finite() { span * share } else { 0.0 } }
    }

    /// Whether there is anything to watch.
    pub(super) fn is_idle(&self) -> bool {
        let Limits { very_low, low, high, very_high, .. } = self.limits;
        [very_low, low, high, very_high].iter().all(Option::is_none)
    }

    /// The alarm of a value, where there was one before. What is not a number passes no limit, and clears none.
    pub(super) fn judge(&self, value: f64, before: Alarm) -> Alarm {
        if value.is_nan() {
            return before;
        }
        let Limits { very_low, low, high, very_high, .. } = self.limits;
        // An alarm that is there stays until the value is inside by the band.
        let back = |alarm: Alarm| if holds(before, alarm) { self.band } else { 0.0 };
        let above = |limit: Option<f64>, alarm| limit.is_some_and(|limit| value > limit - back(alarm));
        let below = |limit: Option<f64>, alarm| limit.is_some_and(|limit| value < limit + back(alarm));
        match () {
            () if above(very_high, Alarm::VeryHigh) => Alarm::VeryHigh,
            () if below(very_low, Alarm::VeryLow) => Alarm::VeryLow,
            () if above(high, Alarm::High) => Alarm::High,
            () if below(low, Alarm::Low) => Alarm::Low,
            () => Alarm::None,
        }
    }

    /// The limit of an alarm.
    pub(super) fn limit(&self, alarm: Alarm) -> Option<f64> {
        let Limits { very_low, low, high, very_high, .. } = self.limits;
        match alarm {
            Alarm::None => None,
            Alarm::VeryLow => very_low,
            Alarm::Low => low,
            Alarm::High => high,
            Alarm::VeryHigh => very_high,
        }
    }
}

/// Whether one alarm includes another: very high is high, too.
fn holds(before: Alarm, alarm: Alarm) -> bool {
    matches!((before, alarm), (Alarm::VeryHigh, Alarm::High) | (Alarm::VeryLow, Alarm::Low)) || before == alarm
}

/// How bad an alarm is.
pub(super) fn severity(alarm: Alarm) -> Severity {
    match alarm {
        Alarm::None => Severity::Info,
        Alarm::Low | Alarm::High => Severity::Minor,
        Alarm::VeryLow | Alarm::VeryHigh => Severity::Major,
    }
}

/// As the event says it.
pub(super) fn words(alarm: Alarm) -> &'static str {
    match alarm {
        Alarm::None => "within its limits",
        Alarm::VeryLow => "very low",
        Alarm::Low => "low",
        Alarm::High => "high",
        Alarm::VeryHigh => "very high",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch() -> Watch {
        let limits = Limits {
            very_low: Some(-10.0),
            low: Some(-5.0),
            high: Some(5.0),
            very_high: Some(10.0),
            ..Limits::default()
        };
        Watch::new(limits, 0.05)
    }

    #[test]
    fn alarms_come_at_the_limit_and_go_behind_the_band() {
        let mut alarm = Alarm::None;
        let mut follow = |value| {
            alarm = watch().judge(value, alarm);
            alarm
        };
        let values = [0.0, 5.0, 5.1, 4.5, 4.1, 4.0, 11.0, 9.5, 8.9, 3.9, -5.1, f64::NAN, -11.0, -9.5, -8.9, 20.0, 0.0];
        use Alarm::{High as H, Low as L, None as N, VeryHigh as HH, VeryLow as LL};
        assert_eq!(values.map(&mut follow), [N, N, H, H, H, N, HH, HH, H, N, L, L, LL, LL, L, HH, N]);
    }

    #[test]
    fn without_limits_there_is_nothing_to_watch() {
        let idle = Watch::new(Limits { display_high: Some(1.0), ..Limits::default() }, 0.01);
        assert!(idle.is_idle() && !watch().is_idle());
        assert_eq!(idle.judge(1e300, Alarm::None), Alarm::None);
        let one = Watch::new(Limits { high: Some(100.0), ..Limits::default() }, 0.01);
        assert_eq!([99.5, 98.9].map(|value| one.judge(value, Alarm::High)), [Alarm::High, Alarm::None]);
    }
}
