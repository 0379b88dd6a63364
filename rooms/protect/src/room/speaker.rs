//! The BGP speaker as the guard sees it.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use weir_units::Span;

use super::Waker;
use crate::bgp::{self, Instance, Session};
use crate::config::document::{self, OnStop};
use crate::guard::Announcer;
use crate::model::{Installed, Neighbour, Route, Speaking};
use crate::settings;

/// gobgpd, held equal to what is wanted.
struct Gobgp {
    speaker: bgp::Speaker,
    address: String,
    version: Arc<AtomicU64>,
}

/// Begins to speak; `waker` is woken when what is known of it changes.
///
/// # Errors
/// A password cannot be read; no thread is to be had.
pub(super) fn start(settings: &settings::Speaker, instance: Instance, waker: Arc<Waker>) -> Result<Box<dyn Announcer>> {
    let neighbours = settings.neighbours.iter().map(neighbour).collect::<Result<_>>()?;
    let address = settings.gobgp.to_string();
    let on_stop = match settings.on_stop {
        OnStop::Keep => bgp::OnStop::Keep,
        OnStop::Withdraw => bgp::OnStop::Withdraw,
    };
    let version = Arc::<AtomicU64>::default();
    let changed = {
        let version = version.clone();
        move || {
            version.fetch_add(1, Ordering::Release);
            waker.wake();
        }
    };
    let settings = bgp::Settings { gobgp: address.clone(), instance, marker: settings.marker, neighbours, on_stop };
    let speaker = bgp::Speaker::start(settings, changed).context("start the speaker")?;
    Ok(Box::new(Gobgp { speaker, address, version }))
}

impl Announcer for Gobgp {
    fn want(&mut self, routes: &[Route]) {
        self.speaker.want(routes.to_vec());
    }

    fn sweep(&mut self) {
        self.speaker.sweep();
    }

    fn installed(&self, route: &Route) -> Installed {
        self.speaker.state().installed(route)
    }

    fn speaking(&self) -> Speaking {
        let state = self.speaker.state();
        let neighbours = state.neighbours.iter().map(|to| Neighbour {
            address: to.address,
            asn: to.asn,
            state: capitalised(to.state),
        });
        let speaking = Speaking {
            address: self.address.clone(),
            standing: state.standing,
            orphans: state.orphans,
            settled: self.speaker.is_settled(),
            neighbours: neighbours.collect(),
            ..Speaking::default()
        };
        match &state.session {
            Session::Up { since, version, .. } => {
                Speaking { version: format!("gobgpd {version}"), connected: true, since: Some(*since), ..speaking }
            }
            Session::Down { since, why } => Speaking { since: Some(*since), why: Some(why.clone()), ..speaking },
        }
    }

    fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }
}

fn neighbour(written: &document::Neighbour) -> Result<bgp::Neighbour> {
    let password = written.password.as_ref().map(|path| {
        let text = fs::read_to_string(path).with_context(|| format!("password {}", path.display()))?;
        anyhow::Ok(bgp::Password(text.trim_end().to_owned()))
    });
    let usual = bgp::Neighbour::new(written.address, written.asn);
    let span = |written: Option<Span>, usual: Duration| written.map_or(usual, Span::duration);
    Ok(bgp::Neighbour {
        port: written.port.unwrap_or(usual.port),
        local_address: written.local_address,
        multihop: written.multihop,
        password: password.transpose()?,
        hold_time: span(written.hold_time, usual.hold_time),
        restart_time: span(written.restart_time, usual.restart_time),
        ..usual
    })
}

/// As RFC 4271 writes it.
fn capitalised(state: &str) -> String {
    let name = match state {
        "opensent" => "OpenSent",
        "openconfirm" => "OpenConfirm",
        "established" => "Established",
        "idle" => "Idle",
        "connect" => "Connect",
        "active" => "Active",
        other => other,
    };
    name.to_owned()
}
