//! The time in probes, and waiting for events with nanosecond time-outs.

use std::fs;
use std::num::NonZeroU32;
use std::sync::OnceLock;
use std::time::Duration;

use nix::poll::{PollFd, ppoll};
use nix::sys::epoll::EpollTimeout;
use nix::sys::prctl;
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};
use weir_kernel::host;

/// Nanoseconds of CLOCK_MONOTONIC, which all network namespaces of one machine share.
pub type Nanos = u64;

/// The present.
pub fn now() -> Nanos {
    // CLOCK_MONOTONIC always exists on Linux; 0 would show at once as a delay of days.
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0, |t| t.tv_sec() as u64 * 1_000_000_000 + t.tv_nsec() as u64)
}

/// A duration in nanoseconds; at most 584 years.
pub fn nanos(duration: Duration) -> Nanos {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The first 64 bits of the kernel's boot id. `None`: not available (no /proc).
pub fn boot_id() -> Option<u64> {
    static ID: OnceLock<Option<u64>> = OnceLock::new();
    *ID.get_or_init(|| {
        let digits: String = host::boot_id()?.chars().filter(char::is_ascii_hexdigit).take(16).collect();
        u64::from_str_radix(&digits, 16).ok().filter(|&id| id != 0)
    })
}

/// Identifies this process's CLOCK_MONOTONIC: times in probes with different ids cannot be compared. Other boots have
/// other clocks, and so do time namespaces with an offset (time_namespaces(7)). `None`: not available (no /proc).
pub fn id() -> Option<NonZeroU32> {
    static ID: OnceLock<Option<NonZeroU32>> = OnceLock::new();
    *ID.get_or_init(|| {
        let offsets = fs::read_to_string("/proc/self/timens_offsets").unwrap_or_default();
        boot_id().map(|boot| told_apart(boot, &offsets))
    })
}

/// A boot's clock with the offset of a time namespace: a line `monotonic SECONDS NANOSECONDS`.
fn told_apart(boot: u64, offsets: &str) -> NonZeroU32 {
    let words = offsets
        .lines()
        .map(str::split_whitespace)
        .find_map(|mut words| (words.next()? == "monotonic").then_some(words));
    let (seconds, nanos) = words
        .and_then(|mut words| Some((words.next()?.parse::<i64>().ok()?, words.next()?.parse::<i64>().ok()?)))
        .unwrap_or_default();
    let offset = seconds.wrapping_mul(1_000_000_000).wrapping_add(nanos) as u64;
    // An odd factor: different offsets of a boot stay different before the halves are joined.
    let mixed = boot ^ offset.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    NonZeroU32::new((mixed >> 32) as u32 ^ mixed as u32).unwrap_or(NonZeroU32::MIN)
}

/// Lets timers of the calling thread fire on time instead of up to 50 us late.
pub fn precise_timers() {
    // If the kernel refuses, the default slack stays: 50 us later, which is measured.
    let _ = prctl::set_timerslack(1);
}

/// Waits until one of `fds` is ready or the time `until` has come. `None`: without end.
pub fn wait(fds: &mut [PollFd<'_>], until: Option<Nanos>) {
    let timeout = until.map(|until| TimeSpec::from_duration(Duration::from_nanos(until.saturating_sub(now()))));
    // EINTR and similar errors look like an early wake-up: callers check the clock and the sockets again anyway.
    let _ = ppoll(fds, timeout, None);
}

/// The time until `until` in epoll's form: milliseconds, rounded up, at most an hour, so that callers check the clock
/// again anyway. `None` waits without end.
pub fn epoll_timeout(until: Option<Nanos>) -> EpollTimeout {
    let Some(until) = until else { return EpollTimeout::NONE };
    let left = Duration::from_nanos(until.saturating_sub(now())) + Duration::from_micros(999);
    EpollTimeout::try_from(left.min(Duration::from_secs(3600))).unwrap_or(EpollTimeout::ZERO)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_until_the_time_has_come() {
        let until = now() + 2_000_000;
        while now() < until {
            wait(&mut [], Some(until));
        }
        assert!(now() >= until);
    }

    #[test]
    fn this_machine_has_a_boot_id() {
        assert_eq!(boot_id(), boot_id());
        assert!(boot_id().is_some());
        assert_eq!(id(), id());
        assert!(id().is_some());
    }

    #[test]
    fn a_clock_that_is_set_off_is_another() {
        let of = |offsets| told_apart(7, offsets);
        assert_eq!(of(""), of("monotonic           0         0\nboottime            9         0\n"));
        let distinct = [
            of(""),
            of("monotonic 5 0\n"),
            of("monotonic -5 0\n"),
            of("boottime 5 0\nmonotonic 0 1\n"),
            told_apart(8, ""),
        ];
        assert!(distinct.iter().enumerate().all(|(n, id)| !distinct[..n].contains(id)), "{distinct:?}");
    }
}
