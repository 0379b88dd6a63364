//! Countries and autonomous systems for the room that protects.

use std::net::IpAddr;
use std::sync::Arc;

use weir_protect::detect;

use crate::names::{Geo, Lookups};

/// The files that are configured.
#[derive(Debug)]
pub(crate) struct Atlas {
    country: Option<Arc<Geo>>,
    asn: Option<Arc<Geo>>,
}

impl Atlas {
    /// Those of the lookups; `None`: no file is configured.
    pub(crate) fn of(lookups: &Lookups) -> Option<Box<dyn detect::Atlas>> {
        let atlas = Self { country: lookups.country.clone(), asn: lookups.asn.clone() };
        let is_some = atlas.country.is_some() || atlas.asn.is_some();
        is_some.then(|| Box::new(atlas) as Box<dyn detect::Atlas>)
    }
}

impl detect::Atlas for Atlas {
    fn country(&self, address: IpAddr) -> Option<String> {
        Some(self.country.as_ref()?.country(address)?.code.to_owned())
    }

    fn asn(&self, address: IpAddr) -> Option<u32> {
        Some(self.asn.as_ref()?.system(address)?.number)
    }
}
