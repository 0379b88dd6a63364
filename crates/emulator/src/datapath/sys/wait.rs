//! Waiting with nanosecond precision, and scheduler hints for early wake-ups.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use libc::{c_int, c_long};

use super::socket::check;

/// An epoll event of a descriptor: the number it was added with.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(in crate::datapath) struct Event(libc::epoll_event);

impl Event {
    pub(in crate::datapath) const NONE: Self = Self(libc::epoll_event { events: 0, u64: 0 });

    pub(in crate::datapath) fn token(&self) -> u64 {
        self.0.u64
    }
}

/// Waits for events, at most `timeout` ns (`None`: forever); returns their number. epoll_pwait2(2), Linux 5.11.
pub(in crate::datapath) fn wait(
    epoll: BorrowedFd<'_>,
    events: &mut [Event],
    timeout: Option<u64>,
) -> io::Result<usize> {
    let timeout =
        timeout.map(|ns| Timespec { seconds: (ns / 1_000_000_000) as i64, nanoseconds: (ns % 1_000_000_000) as i64 });
    let pointer: *const Timespec = timeout.as_ref().map_or(ptr::null(), ptr::from_ref);
    // SAFETY: `events` has the layout of an array of epoll_event (repr(transparent)) and the length passed; the kernel
    // writes whole elements into it. The timeout is null or points to a __kernel_timespec that outlives the call. The
    // signal mask may be null; its size is then ignored.
    let ready = unsafe {
        libc::syscall(
            libc::SYS_epoll_pwait2,
            epoll.as_raw_fd(),
            events.as_mut_ptr(),
            events.len() as c_int,
            pointer,
            ptr::null::<libc::sigset_t>(),
            0usize,
        )
    };
    match check_long(ready) {
        Ok(count) => Ok(count as usize),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
        Err(error) => Err(error),
    }
}

/// Makes timers of the calling thread fire without the default 50 us of slack. PR_SET_TIMERSLACK(2const).
pub(in crate::datapath) fn drop_timer_slack() -> io::Result<()> {
    // SAFETY: takes no pointers.
    check(unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) })?;
    Ok(())
}

/// Requests a short time slice for the calling thread: EEVDF then selects it sooner when it wakes up, and preempts it
/// sooner. Linux 6.12; ignored before. sched_setattr(2), needs no privilege.
pub(in crate::datapath) fn shorten_slice(nanoseconds: u64) -> io::Result<()> {
    let attributes = SchedulingAttributes { runtime: nanoseconds, ..attributes()? };
    // SAFETY: the pointer describes `attributes`, whose size field tells its size; the kernel only reads it.
    check_long(unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) })?;
    Ok(())
}

/// The calling thread's attributes.
fn attributes() -> io::Result<SchedulingAttributes> {
    // SAFETY: SchedulingAttributes is plain data, for which all-zero bytes are valid.
    let mut attributes: SchedulingAttributes = unsafe { mem::zeroed() };
    let size = size_of::<SchedulingAttributes>() as u32;
    // SAFETY: the pointer and size describe `attributes`, which the kernel fills. Pid 0 is the calling thread.
    check_long(unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) })?;
    Ok(attributes)
}

/// `struct __kernel_timespec`: 64 bits each on every machine.
#[repr(C)]
struct Timespec {
    seconds: i64,
    nanoseconds: i64,
}

/// `struct sched_attr` of linux/sched/types.h, version 0.
#[repr(C)]
struct SchedulingAttributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    /// For SCHED_OTHER the slice.
    runtime: u64,
    deadline: u64,
    period: u64,
}

fn check_long(result: c_long) -> io::Result<c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::time::{Duration, Instant};

    use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
    use nix::sys::eventfd::EventFd;

    use super::*;

    #[test]
    fn waiting_ends_with_an_event_or_in_time() {
        let epoll = Epoll::new(EpollCreateFlags::empty()).unwrap();
        let event = EventFd::new().unwrap();
        epoll.add(&event, EpollEvent::new(EpollFlags::EPOLLIN, 42)).unwrap();
        let mut events = [Event::NONE; 4];
        let start = Instant::now();
        assert_eq!(wait(epoll.0.as_fd(), &mut events, Some(2_000_000)).unwrap(), 0);
        assert!(start.elapsed() >= Duration::from_millis(2));
        event.write(1).unwrap();
        assert_eq!(wait(epoll.0.as_fd(), &mut events, None).unwrap(), 1);
        assert_eq!(events[0].token(), 42);
    }

    #[test]
    fn the_thread_has_what_was_asked_for_it() {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
        let mut numbers = release.split(['.', '-']).map_while(|number| number.parse::<u32>().ok());
        let reports_slice = (numbers.next(), numbers.next()) >= (Some(6), Some(12));
        let thread = std::thread::spawn(move || {
            // SAFETY: takes no pointers.
            let slack = || unsafe { libc::prctl(libc::PR_GET_TIMERSLACK) };
            assert!(slack() > 1);
            drop_timer_slack().unwrap();
            assert_eq!(slack(), 1);
            let before = attributes().unwrap();
            shorten_slice(300_000).unwrap();
            let after = attributes().unwrap();
            assert_eq!((after.policy, after.nice), (before.policy, before.nice), "nothing else is changed");
            assert_eq!(after.runtime, if reports_slice { 300_000 } else { before.runtime });
        });
        thread.join().unwrap();
    }
}
