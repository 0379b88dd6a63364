//! Which statistics of a cell are valid although the machine stood still: one formula each, on all messages.

use std::collections::BTreeMap;

use weir_report::columns::Statistic;

/// The data for judging a cell.
#[derive(Clone, Debug, Default)]
pub struct Conduct {
    /// Length of the sending window, s.
    pub window_s: f64,
    /// The lengths of standstills in the window, by CPU or direction of a link, s.
    pub standstills: BTreeMap<String, Vec<f64>>,
    /// Mean and max delay, s. `None`: not measured.
    pub delays_s: Option<(f64, f64)>,
    /// Whether losses during a standstill are retransmitted, after a timeout at the earliest.
    pub is_tcp: bool,
    /// `run.max_standstill`, 0 to 1.
    pub max_standstill: f64,
}

impl Conduct {
    /// The place with the longest total standstill, and its share of the window, 0 to 1.
    pub fn share(&self) -> (f64, &str) {
        let share = |lengths: &Vec<f64>| lengths.iter().sum::<f64>() / self.window_s;
        let shares = self.standstills.iter().map(|(place, lengths)| (share(lengths), place.as_str()));
        shares.max_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or((0.0, ""))
    }

    /// The statistics that are not valid, and why.
    pub fn doubts(&self) -> BTreeMap<Statistic, String> {
        let mut doubts = BTreeMap::new();
        let (share, place) = self.share();
        let stood = format!("{place} stood still for {:.2} % of the time", share * 100.0);
        let mut doubt_above = |statistic, max: f64| {
            if share > max {
                doubts.insert(statistic, stood.clone());
            }
        };
        doubt_above(Statistic::Rate, self.max_standstill);
        // About this many messages meet a standstill: at most half of the tail beyond a quantile.
        for (statistic, quantile) in [(Statistic::P50, 0.5), (Statistic::P99, 0.99), (Statistic::P999, 0.999)] {
            doubt_above(statistic, (1.0 - quantile) / 2.0);
        }
        let Some((mean, largest)) = self.delays_s else { return doubts };
        // A standstill delays its share of the messages, each by half of its length on average.
        let added = |lengths: &Vec<f64>| {
            let cost = |length: &f64| length + if self.is_tcp && *length >= MIN_TIMEOUT { MIN_TIMEOUT } else { 0.0 };
            lengths.iter().map(|length| cost(length).powi(2)).sum::<f64>() / (2.0 * self.window_s)
        };
        let added = self.standstills.values().map(added).fold(0.0, f64::max);
        if added > mean * 0.1 {
            let why = format!("standstills added {:.0} us to a mean of {:.0} us", added * 1e6, mean * 1e6);
            doubts.insert(Statistic::Mean, why);
        }
        let longest = self.standstills.values().flatten().copied().fold(0.0, f64::max);
        if longest > largest / 2.0 {
            let why = format!("a standstill may be {:.1} ms of the {:.1} ms", longest * 1e3, largest * 1e3);
            doubts.insert(Statistic::Max, why);
        }
        doubts
    }
}

/// TCP's min retransmission timeout (TCP_RTO_MIN, include/net/tcp.h), s: a shorter standstill causes no retransmission.
const MIN_TIMEOUT: f64 = 0.2;

#[cfg(test)]
mod tests {
    use super::Statistic::{Max, Mean, P50, P99, P999, Rate};
    use super::*;

    /// A minute of messages that took 2 ms, 10 ms at most.
    fn minute(standstills: &[(&str, &[f64])]) -> Conduct {
        let standstills = standstills.iter().map(|(place, lengths)| (place.to_string(), lengths.to_vec())).collect();
        let delays_s = Some((2e-3, 10e-3));
        Conduct { window_s: 60.0, standstills, delays_s, is_tcp: false, max_standstill: 0.05 }
    }

    fn doubted(conduct: &Conduct) -> Vec<Statistic> {
        conduct.doubts().into_keys().collect()
    }

    #[test]
    fn each_statistic_bears_as_much_as_its_formula_says() {
        let many = |n: usize| vec![0.001; n];
        assert_eq!(doubted(&minute(&[])), []);
        // Shares of 60 s: 0.05 % are 30 ms, 0.5 % are 300 ms, 5 % are 3 s, 25 % are 15 s.
        for (n, expected) in [
            (29, vec![]),
            (31, vec![P999]),
            (299, vec![P999]),
            (301, vec![P99, P999]),
            (3001, vec![Rate, P99, P999]),
            (15_001, vec![Rate, P50, P99, P999]),
        ] {
            assert_eq!(doubted(&minute(&[("cpu 0", &many(n))])), expected, "{n}");
        }
        // The place counts that stood still for longest, not the sum of all.
        assert_eq!(doubted(&minute(&[("cpu 0", &many(29)), ("cpu 1", &many(29))])), []);
        assert_eq!(minute(&[("cpu 0", &[0.6]), ("uplink ->", &[1.2])]).share(), (0.02, "uplink ->"));
    }

    #[test]
    fn long_standstills_move_the_mean_and_the_maximum() {
        // 109 ms: 0.109^2 / 120 = 99 us of a mean of 1 ms.
        let one = |length: f64| Conduct { delays_s: Some((1e-3, 1.0)), ..minute(&[("cpu 0", &[length])]) };
        assert_eq!((doubted(&one(0.109)), doubted(&one(0.110))), (vec![P999], vec![Mean, P999]));
        assert_eq!(one(0.110).doubts()[&Mean], "standstills added 101 us to a mean of 1000 us");
        assert_eq!(
            (doubted(&minute(&[("cpu 0", &[0.0049])])), doubted(&minute(&[("cpu 0", &[0.0051])]))),
            (vec![], vec![Max])
        );
        // What TCP sends again it sends 200 ms later: 0.4^2 / 120 = 1.3 ms of 10 ms.
        let tcp = |length| Conduct { is_tcp: true, delays_s: Some((10e-3, 1.0)), ..minute(&[("cpu 0", &[length])]) };
        assert_eq!((doubted(&tcp(0.19)), doubted(&tcp(0.2))), (vec![P999], vec![Mean, P999]));
        let none = Conduct { delays_s: None, ..minute(&[("cpu 0", &[2.0])]) };
        assert_eq!(doubted(&none), [P99, P999]);
        assert_eq!(none.doubts()[&P99], "cpu 0 stood still for 3.33 % of the time");
    }
}
