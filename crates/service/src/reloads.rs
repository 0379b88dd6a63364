//! Reloads of the configuration, as metrics tell of them.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::metrics::{Family, Kind, Samples};

/// What became of reloads since the start. Clones share the counts.
#[derive(Clone, Debug)]
pub(crate) struct Reloads(Arc<Mutex<Counts>>);

#[derive(Debug)]
struct Counts {
    succeeded: u64,
    failed: u64,
    /// When the configuration in force was loaded, Unix time in seconds.
    loaded: f64,
}

impl Reloads {
    /// None yet: the configuration in force has been loaded now.
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(Counts { succeeded: 0, failed: 0, loaded: unix_time() })))
    }

    pub(crate) fn count(&self, succeeded: bool) {
        // Nobody panics while holding it.
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if succeeded {
            counts.succeeded += 1;
            counts.loaded = unix_time();
        } else {
            counts.failed += 1;
        }
    }

    /// Adds every family of [`FAMILIES`].
    pub(crate) fn metrics(&self, samples: &mut Samples<'_>) {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let results = [("succeeded", counts.succeeded), ("failed", counts.failed)];
        samples.family(&RELOADS, results.map(|(result, count)| ([result.to_owned()], count)));
        samples.single(&LOADED, counts.loaded);
    }
}

fn unix_time() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

/// Every family of this module, in the order in which it is exposed.
pub(crate) const FAMILIES: [Family; 2] = [RELOADS, LOADED];

const RELOADS: Family = Family {
    name: "weir",
    unit: Some("reloads"),
    kind: Kind::Counter,
    help: "Reloads of the configuration: `succeeded`, or `failed`, which changes nothing; absent: there is no file.",
    labels: &["result"],
};
const LOADED: Family = Family {
    name: "weir_config_loaded",
    unit: Some("seconds"),
    kind: Kind::Gauge,
    help: "When the configuration in force was loaded, as a Unix time; absent: there is no file.",
    labels: &[],
};

#[cfg(test)]
mod tests {
    use super::super::metrics::{Format, expose};
    use super::*;

    #[test]
    fn only_a_reload_that_succeeds_is_a_load() {
        let reloads = Reloads::new();
        reloads.0.lock().unwrap().loaded = 0.0;
        let exposed = || {
            let reloads = reloads.clone();
            expose(Format::Text, move |samples| reloads.metrics(samples))
        };
        let counts = |succeeded, failed| {
            format!(
                "weir_reloads_total{{result=\"succeeded\"}} {succeeded}\nweir_reloads_total{{result=\"failed\"}} {failed}\n"
            )
        };
        reloads.count(false);
        let text = exposed();
        assert!(text.contains(&counts(0, 1)) && text.contains("weir_config_loaded_seconds 0.0\n"), "{text}");
        reloads.count(true);
        let text = exposed();
        assert!(text.contains(&counts(1, 1)) && !text.contains("weir_config_loaded_seconds 0.0\n"), "{text}");
        for family in FAMILIES {
            assert!(text.contains(&format!("# TYPE {} ", family.full_name())), "{family:?}");
        }
    }
}
