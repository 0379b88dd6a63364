//! Results from the times of single messages.

use std::time::Duration;

use weir_program::clock::Nanos;
use weir_stats::DelayRecorder;
use weir_traffic::{Flight, SessionReport, Window};

/// Results from the messages of a session that are kept one by one.
pub(super) struct Times {
    /// Delays from the due times of messages.
    pub(super) intended: DelayRecorder,
    /// Messages that arrived during sending. `None`: not all are kept.
    pub(super) in_window: Option<u64>,
    /// The largest delay of each part of the window: its end (s), and the delay (us).
    pub(super) course: Vec<(f64, f64)>,
}

impl Times {
    pub(super) fn new(session: &SessionReport, window: Window) -> Times {
        let length = (window.end - window.start).max(1);
        let mut intended = DelayRecorder::new(Duration::from_nanos(length));
        let (mut in_window, mut course) = (0, vec![None::<Nanos>; COURSE]);
        for flight in &session.flights {
            let Flight { sent, received, .. } = *flight;
            let at = received.saturating_sub(window.start);
            in_window += u64::from(at < length);
            intended.record(Duration::from_nanos(at), flight.late());
            let part = (u128::from(at) * COURSE as u128 / u128::from(length)) as usize;
            if let Some(most) = course.get_mut(part) {
                *most = (*most).max(Some(received.saturating_sub(sent)));
            }
        }
        let all = session.flights.len() as u64 == session.delivered;
        let part = length as f64 / 1e9 / COURSE as f64;
        let point = |(index, most): (usize, Option<Nanos>)| Some(((index as f64 + 1.0) * part, most? as f64 / 1e3));
        let course = course.into_iter().enumerate().filter_map(point).collect();
        Times { intended, in_window: all.then_some(in_window), course }
    }
}

/// Points of the course.
const COURSE: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_put_where_they_arrived() {
        const MS: Nanos = 1_000_000;
        let flight = |sent: u64, received: u64| Flight {
            number: 0,
            intended: sent * MS - MS,
            sent: sent * MS,
            received: received * MS,
        };
        let flights = [flight(1, 3), flight(2, 9), flight(500, 505), flight(990, 1007)].to_vec();
        let peer = "10.0.0.1:7".parse().unwrap();
        let session = SessionReport { flights, delivered: 4, ..SessionReport::new(peer, 1, 0, Duration::ZERO) };
        let times = Times::new(&session, Window { start: 0, end: 1000 * MS });
        assert_eq!(times.in_window, Some(3));
        assert_eq!(times.course, [(0.01, 7000.0), (0.51, 5000.0)]);
        assert_eq!(times.intended.delays().max_us().map(|max| (max / 100.0).round()), Some(180.0));
    }
}
