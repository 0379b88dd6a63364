//! What iperf3 prints with `-J`, as far as it is used. Versions differ (3.9 to 3.20 were read): whatever is missing, or
//! null, is `None`.

use serde::Deserialize;

/// The document of one end.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Output {
    pub(super) start: Start,
    pub(super) intervals: Vec<Interval>,
    pub(super) end: End,
    /// What went wrong, in iperf3's words.
    pub(super) error: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Start {
    /// One a data connection that came up.
    pub(super) connected: Vec<Connected>,
    /// `iperf 3.12`.
    pub(super) version: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub(super) struct Connected {}

/// One look, at all streams. `end` is reliable; `start` is not (in the first one behind a warm-up it is left over).
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Interval {
    pub(super) streams: Vec<Part>,
    pub(super) sum: Option<Part>,
}

/// A stream's, or all streams' part of a look.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Part {
    /// Seconds since the warm-up or the window began.
    pub(super) end: Option<f64>,
    pub(super) bytes: Option<f64>,
    /// TCP, sending end: segments sent again.
    pub(super) retransmits: Option<f64>,
    /// Bytes.
    pub(super) snd_cwnd: Option<f64>,
    /// Smoothed round-trip time, us.
    pub(super) rtt: Option<f64>,
    /// Whether it belongs to the warm-up.
    pub(super) omitted: Option<bool>,
}

/// The warm-up is not in it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct End {
    pub(super) streams: Vec<EndOfStream>,
    /// UDP.
    pub(super) sum: Option<Sum>,
    pub(super) sum_sent: Option<Sum>,
    pub(super) sum_received: Option<Sum>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct EndOfStream {
    pub(super) udp: Option<Sum>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Sum {
    pub(super) bytes: Option<f64>,
    pub(super) retransmits: Option<f64>,
    /// Datagrams sent, or (receiving end) sent so far as the highest one received tells.
    pub(super) packets: Option<f64>,
    pub(super) lost_packets: Option<f64>,
    pub(super) out_of_order: Option<f64>,
    pub(super) jitter_ms: Option<f64>,
}

impl Output {
    /// Reads the first document; some versions print a second one, or words, behind it.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Output, String> {
        match serde_json::Deserializer::from_slice(bytes).into_iter().next() {
            Some(Ok(output)) => Ok(output),
            Some(Err(error)) => Err(format!("its JSON cannot be read: {error}")),
            None => Err("it printed nothing".into()),
        }
    }
}

impl Interval {
    /// All streams together. Where iperf3 gives no sum (it does from 3.0 on), that of the streams.
    pub(super) fn bytes(&self) -> f64 {
        let sum = self.sum.as_ref().and_then(|sum| sum.bytes);
        sum.unwrap_or_else(|| self.streams.iter().filter_map(|stream| stream.bytes).sum())
    }

    pub(super) fn end(&self) -> Option<f64> {
        self.parts().find_map(|part| part.end)
    }

    pub(super) fn omitted(&self) -> bool {
        self.parts().find_map(|part| part.omitted).unwrap_or(false)
    }

    fn parts(&self) -> impl Iterator<Item = &Part> {
        self.sum.iter().chain(&self.streams)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn whatever_is_missing_is_none() {
        assert_eq!(Output::parse(b"{}").unwrap(), Output::default());
        let output = Output::parse(
            br#"{"start": {"connected": [{"socket": 5}], "version": "iperf 3.9", "new": [1]},
                 "intervals": [{"streams": [{"end": 0.1, "bytes": 7, "rtt": null}, {"bytes": 5}]},
                               {"streams": [], "sum": {"end": 0.2, "bytes": 1e10, "omitted": true}}],
                 "end": {}, "error": "the client has terminated"}"#,
        )
        .unwrap();
        assert_eq!((output.start.connected.len(), output.start.version.as_deref()), (1, Some("iperf 3.9")));
        let looks: Vec<_> = output.intervals.iter().map(|look| (look.end(), look.bytes(), look.omitted())).collect();
        assert_eq!(looks, [(Some(0.1), 12.0, false), (Some(0.2), 1e10, true)]);
        assert_eq!((output.end, output.error.as_deref()), (End::default(), Some("the client has terminated")));
    }

    #[test]
    fn tells_what_is_no_json() {
        assert_eq!(Output::parse(b""), Err("it printed nothing".into()));
        assert_eq!(Output::parse(b" \n"), Err("it printed nothing".into()));
        let error = Output::parse(b"iperf3: parameter error").unwrap_err();
        assert!(error.starts_with("its JSON cannot be read: "), "{error}");
        assert!(Output::parse(br#"{"intervals": 3}"#).is_err());
        assert!(Output::parse(br#"{"error": "busy"} trailing"#).is_ok_and(|output| output.error.is_some()));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Output::parse(&bytes);
        }
    }
}
