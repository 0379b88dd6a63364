//! Loads the programs and keeps them attached.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

use aya::maps::{Array, HashMap, Map};
use aya::programs::{BtfTracePoint, ProgramError};
use aya::{Ebpf, EbpfLoader};
use nix::errno::Errno;

use super::extras::{self, Extras, Prefixes};
use super::sys::FilterValue;
use super::types::Types;
use super::{Detail, Filter, samples};
use weir_kernel::Error;
use weir_kernel::namespaces::user;

/// Compiled by `make bpf`.
pub(super) static OBJECT: &[u8] = aya::include_bytes_aligned!("../bpf/loss.bpf.o");

/// Each program, its tracepoint, and the level that needs it.
const PROGRAMS: [(&str, &str, Detail); 7] = [
    ("drop", "kfree_skb", Detail::Drops),
    ("enqueue", "sk_data_ready", Detail::Queues),
    ("dequeue", "sock_recv_length", Detail::Queues),
    ("arrive", "netif_receive_skb", Detail::Everything),
    ("depart", "net_dev_queue", Detail::Everything),
    ("sent", "sock_send_length", Detail::Everything),
    (TASK_FORKS, "sched_process_fork", Detail::Queues),
];

/// Only where descendants are to be told.
const TASK_FORKS: &str = "task_forks";

/// As many as the map `namespaces` holds.
const MOST_NAMESPACES: usize = 4096;

/// Programs that run until this is dropped.
pub(super) struct Programs {
    ebpf: Ebpf,
    pub(super) detail: Detail,
    pub(super) refused: Vec<String>,
    /// Those that are attached.
    attached: Vec<&'static str>,
    followed: Filter,
}

impl Programs {
    /// Plain loads are faster than the helper, and since 6.17 the verifier permits them where it is not known what a
    /// pointer points to.
    pub(super) fn load(types: &Types, detail: Detail, filter: &Filter, extras: &Extras) -> Result<Programs, Error> {
        match Programs::load_with(types, detail, filter, extras, true) {
            Err(Refused { verified: true, .. }) => Programs::load_with(types, detail, filter, extras, false),
            other => other,
        }
        .map_err(|refused| refused.error)
    }

    fn load_with(
        types: &Types,
        detail: Detail,
        filter: &Filter,
        extras: &Extras,
        direct: bool,
    ) -> Result<Programs, Refused> {
        let own = &types.own;
        let arguments = |tracepoint: &str| own.arguments(tracepoint).unwrap_or(0);
        let reasons = types.reasons();
        let has_reason = u8::from(arguments("kfree_skb") >= 3);
        let has_socket = u8::from(arguments("kfree_skb") >= 4);
        let follow_queue = u8::from(detail >= Detail::Queues);
        let joining = own.enumerator("UDP_FLAGS_GRO_ENABLED").unwrap_or(0);
        let [backlog, receive_buffer, otherhost] =
            ["CPU_BACKLOG", "SOCKET_RCVBUFF", "OTHERHOST"].map(|name| reasons.number(name));

        let loads_directly = u8::from(direct);
        let by_source = u8::from(extras.by_source.is_some());
        let (source_mask_v4, source_mask_v6) = extras.by_source.unwrap_or(Prefixes::ADDRESSES).masks();
        let (ancestor, dev, ino) = if extras.descendants { extras::ancestor() } else { (0, 0, 0) };
        let mut loader = EbpfLoader::new();
        // What is not asked for takes no memory.
        if extras.by_source.is_none() {
            loader.map_max_entries("sources", 1);
        }
        if extras.samples > 0 {
            loader.map_max_entries("samples", samples::MOST);
        }
        let ebpf = loader
            .btf(Some(&types.loader))
            .override_global("has_reason", &has_reason, true)
            .override_global("has_rx_sk", &has_socket, true)
            .override_global("loads_directly", &loads_directly, true)
            .override_global("follow_queue", &follow_queue, true)
            .override_global("gro_flag", &joining, true)
            .override_global("reason_backlog", &backlog, true)
            .override_global("reason_receive_buffer", &receive_buffer, true)
            .override_global("reason_otherhost", &otherhost, true)
            .override_global("by_source", &by_source, true)
            .override_global("source_mask_v4", &source_mask_v4, true)
            .override_global("source_mask_v6", &source_mask_v6, true)
            .override_global("samples_each", &extras.samples, true)
            .override_global("ancestor", &ancestor, true)
            .override_global("ancestor_dev", &dev, true)
            .override_global("ancestor_ino", &ino, true)
            .load(OBJECT)
            .map_err(|error| refusal("load eBPF maps", &error))?;

        let mut programs =
            Programs { ebpf, detail, refused: Vec::new(), attached: Vec::new(), followed: Filter::default() };
        programs.follow(filter)?;
        for (name, tracepoint, level) in PROGRAMS {
            if level > detail || (name == TASK_FORKS && !extras.descendants) {
                continue;
            }
            match programs.attach(name, tracepoint, types) {
                Ok(()) => programs.attached.push(name),
                Err(refused) if level == Detail::Drops || (direct && refused.verified) => return Err(refused),
                Err(Refused { error, .. }) => {
                    programs.refused.push(error.to_string());
                    let below = if level == Detail::Queues { Detail::Drops } else { Detail::Queues };
                    programs.detail = programs.detail.min(below);
                }
            }
        }
        Ok(programs)
    }

    fn attach(&mut self, name: &str, tracepoint: &str, types: &Types) -> Result<(), Refused> {
        let operation = format!("trace {tracepoint}");
        if types.own.arguments(tracepoint).is_none() {
            return Err(Error::answer(operation, "this kernel has no such tracepoint").into());
        }
        let missing = || Error::answer(&operation, "the program is missing");
        let program: &mut BtfTracePoint =
            self.ebpf.program_mut(name).ok_or_else(missing)?.try_into().map_err(|_| missing())?;
        let attach = program.load(tracepoint, &types.loader).and_then(|()| program.attach().map(drop));
        attach.map_err(|error| Refused { verified: verified(&error), error: refusal(&operation, &error) })
    }

    pub(super) fn follow(&mut self, filter: &Filter) -> Result<(), Error> {
        if filter.namespaces.len() > MOST_NAMESPACES {
            let detail = format!("more than {MOST_NAMESPACES} (name none to follow all)");
            return Err(Error::answer(format!("trace {} namespaces", filter.namespaces.len()), detail));
        }
        let failed = |error| refusal("set what is traced", &error);
        let mut value = FilterValue {
            ports: [0; 1024],
            all_ports: u32::from(filter.ports.is_empty()),
            all_namespaces: u32::from(filter.namespaces.is_empty()),
            namespace: filter.namespaces.first().copied().unwrap_or(0),
            more_namespaces: u32::from(filter.namespaces.len() > 1),
        };
        for &port in &filter.ports {
            value.ports[usize::from(port / 64)] |= 1 << (port % 64);
        }
        // Add before the switch, remove after it: what both filters follow is not missed meanwhile.
        {
            let mut namespaces = HashMap::<_, u32, u8>::try_from(self.map_mut("namespaces")?).map_err(failed)?;
            for namespace in &filter.namespaces {
                namespaces.insert(namespace, 1, 0).map_err(failed)?;
            }
        }
        Array::<_, FilterValue>::try_from(self.map_mut("filter")?)
            .and_then(|mut map| map.set(0, value, 0))
            .map_err(failed)?;
        let before = std::mem::replace(&mut self.followed, filter.clone());
        let mut namespaces = HashMap::<_, u32, u8>::try_from(self.map_mut("namespaces")?).map_err(failed)?;
        for namespace in before.namespaces.iter().filter(|namespace| !filter.namespaces.contains(namespace)) {
            // It may have been named twice.
            let _ = namespaces.remove(namespace);
        }
        Ok(())
    }

    pub(super) fn follows_port(&self, port: u16) -> bool {
        self.followed.ports.is_empty() || self.followed.ports.contains(&port)
    }

    pub(super) fn map(&self, name: &str) -> Result<&Map, Error> {
        self.ebpf.map(name).ok_or_else(|| Error::answer(format!("find the eBPF map {name}"), "it is missing"))
    }

    pub(super) fn map_mut(&mut self, name: &str) -> Result<&mut Map, Error> {
        self.ebpf.map_mut(name).ok_or_else(|| Error::answer(format!("find the eBPF map {name}"), "it is missing"))
    }

    /// How often one of these programs was to run and could not, because it was running on that processor already
    /// (kernel/bpf/syscall.c, bpf_prog_show_fdinfo). Before 5.12 the kernel does not tell.
    pub(super) fn recursions(&self, names: &[&str]) -> u64 {
        let recursions = |name: &&str| {
            let program: &BtfTracePoint = self.ebpf.program(name)?.try_into().ok()?;
            let descriptor = program.fd().ok()?.as_fd().as_raw_fd();
            let information = fs::read_to_string(format!("/proc/self/fdinfo/{descriptor}")).ok()?;
            let line = information.lines().find_map(|line| line.strip_prefix("recursion_misses:"))?;
            line.trim().parse::<u64>().ok()
        };
        self.attached.iter().filter(|name| names.contains(name)).filter_map(recursions).sum()
    }
}

/// A program that cannot be loaded.
struct Refused {
    error: Error,
    /// By the kernel's verifier, which read it and did not like it.
    verified: bool,
}

impl From<Error> for Refused {
    fn from(error: Error) -> Refused {
        Refused { error, verified: false }
    }
}

/// One line, whatever the loader and the kernel's verifier have to say.
pub(super) fn refusal(operation: &str, error: &(dyn std::error::Error + 'static)) -> Error {
    let code = errno(error);
    let detail = match code {
        // Capabilities count for eBPF in the first user namespace alone.
        Some(Errno::EPERM) if user::is_first() == Some(false) => {
            "not permitted inside a user namespace or container (run it as root of the host itself)".to_owned()
        }
        Some(Errno::EPERM | Errno::EACCES) if !verified(error) => {
            "operation not permitted (needs CAP_BPF and CAP_PERFMON: run as root)".to_owned()
        }
        Some(Errno::ENOMEM) => "cannot allocate memory (before 5.11: raise the limit with `ulimit -l`)".to_owned(),
        Some(Errno::ENOSYS) => "this kernel has no eBPF (CONFIG_BPF_SYSCALL)".to_owned(),
        _ => first_line(&innermost(error)),
    };
    Error::answer(operation, detail)
}

/// Whether the kernel's verifier looked at a program and refused it.
fn verified(error: &(dyn std::error::Error + 'static)) -> bool {
    matches!(error.downcast_ref(), Some(ProgramError::LoadError { verifier_log, .. }) if !verifier_log.to_string().is_empty())
}

fn errno(error: &(dyn std::error::Error + 'static)) -> Option<Errno> {
    if let Some(code) = error.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error) {
        return Some(Errno::from_raw(code));
    }
    error.source().and_then(errno)
}

fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    match error.source() {
        Some(source) => innermost(source),
        None => error.to_string(),
    }
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const ALL: Extras = Extras { by_source: Some(Prefixes::ADDRESSES), samples: 1, descendants: true };

    #[test]
    fn programs_load_without_plain_loads_too() {
        let types = Types::read(Path::new(crate::BTF)).unwrap();
        match Programs::load_with(&types, Detail::Everything, &Filter::default(), &ALL, false) {
            Ok(programs) => assert_eq!(programs.refused, [] as [String; 0]),
            Err(Refused { error, verified }) => {
                assert!(!verified, "{error}");
                weir_testbed::skip(error);
            }
        }
    }
}
