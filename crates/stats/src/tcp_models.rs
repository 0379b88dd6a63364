//! What theory expects of one bulk TCP connection: a sanity band, not a prediction.
//!
//! Both models are of loss-driven congestion control like Reno's, in steady state, over a path that drops packets
//! independently. CUBIC is faster than they say on long paths with little loss, BBR does not heed loss at all; so a
//! measured rate within a factor of 3 counts as in keeping with them.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A model of the throughput of a bulk TCP connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TcpModel {
    /// Mathis, Semke, Mahdavi, Ott: "The macroscopic behavior of the TCP congestion avoidance algorithm", 1997.
    Mathis,
    /// Padhye, Firoiu, Towsley, Kurose: "Modeling TCP throughput: a simple model and its empirical validation", 1998.
    Pftk,
}

/// What a model expects of a connection, bits/s of payload.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Expected {
    /// The model's rate, or the limit of the path if that is lower.
    pub value: f64,
    /// A third of it.
    pub low: f64,
    /// Three times the model's rate, or the limit of the path if that is lower.
    pub high: f64,
    /// Which model.
    pub model: TcpModel,
}

impl Expected {
    /// The same of several connections at once, which share `rate_limit` (bits/s of payload).
    pub fn of_streams(self, streams: u32, rate_limit: Option<f64>) -> Expected {
        let all = |rate: f64| (rate * f64::from(streams)).min(rate_limit.unwrap_or(f64::INFINITY));
        Expected { value: all(self.value), low: all(self.low), high: all(self.high), ..self }
    }
}

/// Whether a congestion control, by the kernel's name, takes losses for congestion, as the models suppose.
pub fn is_loss_driven(congestion: &str) -> bool {
    !congestion.starts_with("bbr") && congestion != "vegas"
}

/// The band around a model's rate: from its value over this to its value times this.
pub const BAND: f64 = 3.0;

/// From this loss on time-outs decide, which Mathis leaves out.
const PFTK_FROM: f64 = 0.02;

/// What to expect at a `loss` (share of packets, 0 to 1): Mathis below 2 %, from there on PFTK, and never more than
/// `rate_limit` (bits/s of payload; `None`: unlimited).
///
/// `rto` is the retransmission timeout before it backs off, `mss` the payload of a segment in bytes. The window is
/// taken as unlimited. Each segment is taken to be acknowledged: a receiver in the midst of losses does not delay (RFC
/// 5681, section 4.2). `None` without loss, where the limit alone decides; at a loss of 1 and more; without a
/// round-trip time.
pub fn expected(loss: f64, rtt: Duration, rto: Duration, mss: u32, rate_limit: Option<f64>) -> Option<Expected> {
    let (model, rate) = if loss < PFTK_FROM {
        (TcpModel::Mathis, mathis(loss, rtt, mss, 1.0)?)
    } else {
        // PFTK is of what is sent; of that, the path loses its share.
        (TcpModel::Pftk, pftk(loss, rtt, rto, mss, None, 1.0)? * (1.0 - loss))
    };
    let limit = rate_limit.unwrap_or(f64::INFINITY);
    let value = rate.min(limit);
    Some(Expected { value, low: value / BAND, high: (rate * BAND).min(limit), model })
}

/// MSS / RTT * C / sqrt(p) in bits/s, with C = sqrt(3 / (2 b)): 1.22 where each segment is acknowledged (`b` = 1), 0.87
/// with delayed acknowledgements (`b` = 2). Equation 3 and table 1 of the paper, for random loss.
///
/// `None` unless 0 < `loss` < 1 and there is a round-trip time.
pub fn mathis(loss: f64, rtt: Duration, mss: u32, b: f64) -> Option<f64> {
    let packets = (1.5 / b).sqrt() / (rtt.as_secs_f64() * loss.sqrt());
    possible(loss, rtt).then_some(packets * f64::from(mss) * 8.0)
}

/// The full model, equation 32 of the paper, of what is *sent*, in bits/s; `window` is the receiver's in segments
/// (`None`: unlimited), `b` the segments that an acknowledgement covers.
///
/// `None` unless 0 < `loss` < 1 and there is a round-trip time.
pub fn pftk(loss: f64, rtt: Duration, rto: Duration, mss: u32, window: Option<f64>, b: f64) -> Option<f64> {
    if !possible(loss, rtt) {
        return None;
    }
    let (p, rtt) = (loss, rtt.as_secs_f64());
    // Equation 13: the mean window at the end of a round of losses, were it not limited.
    let term = (2.0 + b) / (3.0 * b);
    let unlimited = term + (8.0 * (1.0 - p) / (3.0 * b * p) + term * term).sqrt();
    let limit = window.filter(|limit| *limit <= unlimited);
    let w = limit.unwrap_or(unlimited);
    let rounds = match limit {
        None => b / 2.0 * w + 1.0,
        Some(limit) => b / 8.0 * limit + (1.0 - p) / (p * limit) + 2.0,
    };
    let timeout = timeout_share(p, w);
    let sent = (1.0 - p) / p + w + timeout / (1.0 - p);
    let took = rtt * rounds + timeout * rto.as_secs_f64() * backoff(p) / (1.0 - p);
    Some(sent / took * f64::from(mss) * 8.0)
}

/// Equation 24: the share of losses that end in a timeout, with a window of `w` segments.
fn timeout_share(p: f64, w: f64) -> f64 {
    let kept = 1.0 - p;
    let share = (1.0 - kept.powi(3)) * (1.0 + kept.powi(3) * (1.0 - kept.powf(w - 3.0))) / (1.0 - kept.powf(w));
    share.clamp(0.0, 1.0)
}

/// Equation 29: how much longer timeouts get by doubling, up to 64 times.
fn backoff(p: f64) -> f64 {
    1.0 + (0..6).map(|i| 2f64.powi(i) * p.powi(i + 1)).sum::<f64>()
}

fn possible(loss: f64, rtt: Duration) -> bool {
    loss > 0.0 && loss < 1.0 && !rtt.is_zero()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn near(found: Option<f64>, wanted: f64) {
        let found = found.expect("a rate");
        assert!((found / wanted - 1.0).abs() < 1e-5, "{found} is not {wanted}");
    }

    /// 1460 bytes, 100 ms, 1 %: 11680 bits * 10 / s * sqrt(1.5) * 10.
    #[test]
    fn mathis_by_hand() {
        near(mathis(0.01, 100 * MS, 1460, 1.0), 1_430_502.0);
        near(mathis(0.01, 100 * MS, 1460, 2.0), 1_011_517.6);
        near(mathis(0.04, 10 * MS, 125, 1.5), 1e3 * 100.0 / 0.2);
    }

    /// At 10 % and b = 1 the window is 1 + sqrt(24 + 1) = 6, and f = 1.124992. With 6: Q = 0.271 (1 + 0.729 * 0.271) /
    /// 0.468559 = 0.692631; sent 9 + 6 + Q / 0.9 in 0.1 s * 4 + Q f / 0.9. Limited to 4: Q = 0.271 * 1.0729 / 0.3439
    /// = 0.845466; sent 9 + 4 + Q / 0.9 in 0.1 s * (0.5 + 2.25 + 2) + Q f / 0.9.
    #[test]
    fn pftk_by_hand() {
        let at = |window| pftk(0.1, 100 * MS, 1000 * MS, 125, window, 1.0);
        near(at(None), 12.458_372e3);
        near(at(Some(6.1)), 12.458_372e3);
        near(at(Some(4.0)), 9.099_866e3);
    }

    #[test]
    fn models_change_at_two_percent_and_stay_below_the_limit() {
        let at = |loss, limit| expected(loss, 20 * MS, 220 * MS, 1448, limit);
        let one = at(0.01, None).unwrap();
        near(mathis(0.01, 20 * MS, 1448, 1.0), one.value);
        assert_eq!((one.model, one.low, one.high), (TcpModel::Mathis, one.value / 3.0, one.value * 3.0));
        let five = at(0.05, None).unwrap();
        near(pftk(0.05, 20 * MS, 220 * MS, 1448, None, 1.0), five.value / 0.95);
        assert_eq!(five.model, TcpModel::Pftk);
        let limited = at(0.01, Some(9e5)).unwrap();
        assert_eq!((limited.value, limited.low, limited.high), (9e5, 3e5, 9e5));
        for loss in [0.0, -0.1, 1.0, f64::NAN] {
            assert_eq!(at(loss, Some(1e9)), None, "{loss}");
        }
        assert_eq!(expected(0.01, Duration::ZERO, 200 * MS, 1448, None), None);
    }

    proptest! {
        /// More loss or a longer way never helps within a model.
        #[test]
        fn rates_fall(loss in 0.001f64..0.8, more in 1.01f64..1.2, rtt in 1u32..500, rto in 200u32..2000) {
            let models: [&dyn Fn(f64, Duration) -> Option<f64>; 2] =
                [&|p, rtt| mathis(p, rtt, 1448, 1.0), &|p, rtt| pftk(p, rtt, rto * MS, 1448, None, 1.0)];
            for model in models {
                let here = model(loss, rtt * MS).unwrap();
                prop_assert!(here.is_finite() && here > 0.0);
                prop_assert!(model(loss * more, rtt * MS).unwrap() < here);
                prop_assert!(model(loss, rtt * 2 * MS).unwrap() < here);
            }
        }
    }
}
