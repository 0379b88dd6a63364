//! Which capabilities a watch needs as long as it runs: all others it gives up before it serves anybody.

use weir_kernel::capabilities::{Capability, has};

use super::settings::{WatchOptions, Where};

/// Those without which a later reading would tell less than the first.
pub(super) fn needed(settings: &WatchOptions) -> Vec<Capability> {
    use Capability::{CAP_BPF, CAP_DAC_READ_SEARCH, CAP_PERFMON, CAP_SYS_ADMIN, CAP_SYS_PTRACE, CAP_SYSLOG};
    // Who holds a socket that has just come stands in /proc, among the descriptors of processes of all users.
    let mut needed = vec![CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH];
    let traced = settings.trace.is_some();
    if traced {
        // Programs are attached beside the first readings; before Linux 5.19 it needs CAP_BPF to read their maps, too. The
        // name of a function is looked up when it first drops.
        needed.extend([CAP_BPF, CAP_PERFMON, CAP_SYSLOG]);
    }
    // Before Linux 5.8 CAP_SYS_ADMIN is what the two are since.
    let is_old = traced && !(has(CAP_BPF) && has(CAP_PERFMON));
    // Another namespace is entered for each reading.
    if settings.namespaces != Where::Own || is_old {
        needed.push(CAP_SYS_ADMIN);
    }
    needed
}
