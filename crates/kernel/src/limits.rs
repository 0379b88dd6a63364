//! What the machine lets one process have.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::Error;
use crate::error::During;

/// Makes sure that the process may have `needed` files open at once, those it has included: raises its own limit as far
/// as it may. Returns the limit in force.
///
/// # Errors
/// [`Error::FileDescriptors`], saying how to raise the limit, where it may not.
pub fn ensure_file_descriptors(needed: u64) -> Result<u64, Error> {
    let operation = || "raise the limit of open files";
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).during(operation)?;
    if soft < hard {
        setrlimit(Resource::RLIMIT_NOFILE, hard, hard).during(operation)?;
    }
    if needed > hard { Err(Error::FileDescriptors { needed, limit: hard }) } else { Ok(hard) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_raised_as_far_as_it_goes() {
        let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        setrlimit(Resource::RLIMIT_NOFILE, hard.min(256), hard).unwrap();
        assert_eq!(ensure_file_descriptors(1), Ok(hard));
        assert_eq!(getrlimit(Resource::RLIMIT_NOFILE).unwrap(), (hard, hard));

        let refused = ensure_file_descriptors(hard + 1).unwrap_err().to_string();
        assert!(
            refused.contains(&format!("{} file descriptors are needed, the limit is {hard}", hard + 1)),
            "{refused}"
        );
        assert!(refused.contains(&format!("ulimit -n {}", hard + 1)), "{refused}");
    }
}
