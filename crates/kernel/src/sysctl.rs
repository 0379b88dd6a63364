//! Settings of a network namespace, and of the machine: the files of /proc/sys.

use std::fs;

use nix::errno::Errno;

use crate::Error;
use crate::error::During;
use crate::namespaces::NetNs;

/// Changes settings of a namespace, in order. A setting is its path under /proc/sys/net: `ipv4/ip_forward`. What has
/// its value already is left alone, so that it need not be writable.
///
/// # Errors
/// If the namespace cannot be entered, the kernel has no such setting ([`nix::errno::Errno::ENOENT`]), or it refuses
/// the value.
pub fn set(ns: &NetNs, settings: &[(&str, &str)]) -> Result<(), Error> {
    ns.run(|| {
        settings.iter().try_for_each(|(setting, value)| {
            let operation = || format!("set net/{setting} to {value:?}");
            if fs::read_to_string(path(setting)).during(operation)?.trim_end() == *value {
                return Ok(());
            }
            fs::write(path(setting), value).during(operation)
        })
    })?
}

/// The value of a setting of a namespace, without its line's end.
///
/// # Errors
/// As [`set`].
pub fn get(ns: &NetNs, setting: &str) -> Result<String, Error> {
    let text = ns.run(|| fs::read_to_string(path(setting)).during(|| format!("read net/{setting}")))??;
    Ok(text.trim_end().to_owned())
}

/// As [`get`]; `None` where there is no such setting: many belong to the whole machine, and only its first network
/// namespace shows them (`core/netdev_max_backlog`, `ipv4/udp_mem`).
///
/// # Errors
/// If the namespace cannot be entered, or the setting may not be read.
pub fn find(ns: &NetNs, setting: &str) -> Result<Option<String>, Error> {
    match get(ns, setting) {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.errno() == Some(Errno::ENOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Any setting by its path under /proc/sys (`kernel/random/boot_id`), as the calling thread sees it, without its line's
/// end; `None`: there is none, or it may not be read.
pub fn seen(setting: &str) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/sys/{setting}")).ok()?;
    Some(text.trim_end().to_owned())
}

/// /proc/sys/net shows the settings of whoever looks.
fn path(setting: &str) -> String {
    format!("/proc/sys/net/{setting}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_the_namespaces_own() {
        let (ns, other) = (NetNs::create().unwrap(), NetNs::create().unwrap());
        set(&ns, &[("ipv4/ip_forward", "1"), ("ipv4/ip_default_ttl", "7")]).unwrap();
        assert_eq!(get(&ns, "ipv4/ip_forward").unwrap(), "1");
        assert_eq!(get(&ns, "ipv4/ip_default_ttl").unwrap(), "7");
        assert_eq!(get(&other, "ipv4/ip_default_ttl").unwrap(), "64");
        let refused = set(&ns, &[("ipv4/ip_default_ttl", "0")]).unwrap_err();
        assert_eq!(refused.to_string(), "set net/ipv4/ip_default_ttl to \"0\": invalid argument");
        assert_eq!(find(&ns, "ipv4/no_such"), Ok(None));
        assert_eq!(find(&ns, "ipv4/ip_default_ttl"), Ok(Some("7".into())));
        assert_eq!(ns.run(|| seen("net/ipv4/ip_default_ttl")).unwrap(), Some("7".into()));
        assert_eq!(seen("no_such"), None);
        assert_eq!(get(&ns, "ipv4/no_such").unwrap_err().errno(), Some(Errno::ENOENT));
    }
}
