//! Takes the states of closed sockets out of the kernel's maps.

use aya::maps::{Array, HashMap as KernelMap, MapError};

use super::programs::{Programs, refusal};
use super::sys::SocketValue;
use weir_kernel::Error;

/// Removes the state of a socket; whether it was in the hash map.
pub(super) fn remove(programs: &mut Programs, cookie: u64) -> Result<bool, Error> {
    if remove_slot(programs, cookie)? {
        return Ok(false);
    }
    let mut sockets = KernelMap::<_, u64, SocketValue>::try_from(programs.map_mut("sockets")?).map_err(unchangeable)?;
    was_there(sockets.remove(&cookie))
}

/// Frees the slot of a socket; `false`: it has none.
fn remove_slot(programs: &mut Programs, cookie: u64) -> Result<bool, Error> {
    let mut slots = Array::<_, SocketValue>::try_from(programs.map_mut("socket_slots")?).map_err(unchangeable)?;
    let slot = (cookie % u64::from(slots.len().max(1))) as u32;
    if slots.get(&slot, 0).map_err(unchangeable)?.cookie != cookie {
        return Ok(false);
    }
    slots.set(slot, SocketValue::NONE, 0).map_err(unchangeable)?;
    // Only now can another socket take it.
    let mut claims = Array::<_, u64>::try_from(programs.map_mut("socket_claims")?).map_err(unchangeable)?;
    claims.set(slot, 0, 0).map_err(unchangeable)?;
    Ok(true)
}

fn was_there(removed: Result<(), MapError>) -> Result<bool, Error> {
    match removed {
        Ok(()) => Ok(true),
        Err(MapError::KeyNotFound) => Ok(false),
        Err(MapError::SyscallError(error)) if error.io_error.raw_os_error() == Some(libc::ENOENT) => Ok(false),
        Err(error) => Err(unchangeable(error)),
    }
}

fn unchangeable(error: impl Into<MapError>) -> Error {
    refusal("make room for what is traced", &error.into())
}
