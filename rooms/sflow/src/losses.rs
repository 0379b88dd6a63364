//! What an analyser loses beside what the data path does, each reason with its remedy, for the log.

use weir_service::losses::Loss;

use crate::fate::Fate;
use crate::ledger::Ledger;

/// All losses that nobody asked for, as totals. What `allow` refuses is as configured.
pub(crate) fn losses(ledger: &Ledger) -> Vec<Loss> {
    let unwanted = Fate::ALL.into_iter().filter_map(|fate| Some((fate.name(), fate.remedy()?)));
    let rejected = unwanted.map(|(reason, remedy)| {
        let total = ledger.rejected.get(reason).copied().unwrap_or_default();
        Loss { subject: "sflow".to_owned(), reason, remedy, total }
    });
    let remedy = "agents sent them, they never came: `weir loss check`, and look at the network between";
    let missing = Loss { subject: "agents".to_owned(), reason: "sequence", remedy, total: ledger.lost_before };
    rejected.chain([missing]).collect()
}
