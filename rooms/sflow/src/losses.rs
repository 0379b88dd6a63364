//! What an analyser loses beside what the data path does, each reason with its remedy, for the log.

use weir_service::losses::Loss;

use crate::fate::Fate;
use crate::ledger::Ledger;

/// All losses that nobody asked for, as totals. What `allow` refuses is as configured, unless that is all that comes.
pub(crate) fn losses(ledger: &Ledger) -> Vec<Loss> {
    let unwanted = Fate::all().into_iter().filter_map(|fate| Some((fate.name(), fate.remedy()?)));
    let rejected = unwanted.map(|(reason, remedy)| {
        let total = ledger.rejected.get(reason).copied().unwrap_or_default();
        Loss { subject: "sflow".to_owned(), reason, remedy, unit: "datagram", total }
    });
    let remedy = "agents sent them, they never came: `weir loss check`, and look at the network between";
    let (subject, total) = ("agents".to_owned(), ledger.lost_before);
    let missing = Loss { subject, reason: "sequence", remedy, unit: "datagram", total };
    let refused = Fate::NotAllowed.name();
    let total = ledger.rejected.get(refused).copied().filter(|_| ledger.analysed == 0).unwrap_or_default();
    let remedy = "`allow` names none of the agents that send, and nothing is analysed: add them to it";
    let none = Loss { subject: "sflow".to_owned(), reason: refused, remedy, unit: "datagram", total };
    rejected.chain([missing, none]).collect()
}
