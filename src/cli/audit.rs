//! `facescan audit`: the audit trail in the database.

use std::{
    io::{self, BufWriter, Write},
    process::ExitCode,
};

use anyhow::bail;
use clap::Subcommand;
use facescan_clock::{Clock, SystemClock};
use facescan_store::{AuditStore, NewAuditEntry};
use serde_json::json;

use super::runtime::{open_database, tokio_runtime};
use crate::{
    audit::verify::{NotedHead, Verdict, export, verify},
    config::{AuditLevel, Config},
    pipeline::{scan::hex, stored::hash_from_hex},
};

/// What to do with the audit trail.
#[derive(Debug, Subcommand)]
pub enum AuditCommand {
    /// Check that no entry was changed, deleted or inserted.
    ///
    /// It prints the head of each chain. Note a head elsewhere and pass it later with `--head`: someone who can write to the
    /// database can compute a chain anew, and only a noted head shows that.
    #[command(after_help = "Exit codes: 0 every chain is intact · 1 a chain is broken")]
    Verify {
        /// Only this tenant.
        #[arg(long)]
        tenant: Option<String>,
        /// A head that was noted before: NUMBER:HASH. It needs `--tenant`.
        #[arg(long, value_name = "NUMBER:HASH", value_parser = read_head, requires = "tenant")]
        head: Option<NotedHead>,
    },
    /// Print the entries of a tenant, one JSON line each. The export is recorded too.
    Export {
        /// The tenant. The default is `store.tenant`.
        #[arg(long)]
        tenant: Option<String>,
    },
}

fn read_head(text: &str) -> Result<NotedHead, String> {
    let read = || {
        let (number, hash) = text.split_once(':')?;
        Some(NotedHead {
            number: number.parse().ok()?,
            hash: hash_from_hex(hash).ok()?,
        })
    };
    read().ok_or_else(|| "must be a number, a colon and 64 hex digits".to_owned())
}

/// Runs the command.
///
/// # Errors
/// Returns an error if the database cannot be used or the output cannot be written.
pub fn run(config: &Config, command: AuditCommand) -> anyhow::Result<ExitCode> {
    tokio_runtime()?.block_on(async {
        let stores = open_database(config).await?;
        let code = match command {
            AuditCommand::Verify { tenant, head } => {
                verify_chains(&*stores.audit, tenant, head).await?
            }
            AuditCommand::Export { tenant } => {
                let tenant = tenant.unwrap_or_else(|| config.store.tenant.clone());
                export_chain(config, &*stores.audit, tenant).await?;
                ExitCode::SUCCESS
            }
        };
        stores.scans.close().await;
        Ok(code)
    })
}

async fn verify_chains(
    store: &dyn AuditStore,
    tenant: Option<String>,
    head: Option<NotedHead>,
) -> anyhow::Result<ExitCode> {
    let tenants = match tenant {
        Some(tenant) => vec![tenant],
        None => store.audited_tenants().await?,
    };
    let mut code = ExitCode::SUCCESS;
    for tenant in tenants {
        match verify(store, &tenant, head).await? {
            Verdict::Intact { entries, chain } => {
                let (first, last, hash) = (chain.deleted + 1, chain.last, hex(&chain.last_hash));
                writeln!(
                    io::stdout(),
                    "{tenant}: intact, {entries} entries from {first}, head {last}:{hash}"
                )?;
            }
            Verdict::Broken { number, fault } => {
                code = ExitCode::FAILURE;
                writeln!(io::stdout(), "{tenant}: broken at entry {number}: {fault}")?;
            }
        }
    }
    Ok(code)
}

async fn export_chain(
    config: &Config,
    store: &dyn AuditStore,
    tenant: String,
) -> anyhow::Result<()> {
    if config.audit.level >= AuditLevel::Changes {
        let clock = SystemClock::start();
        let entry = NewAuditEntry {
            tenant: tenant.clone(),
            at: clock.now(),
            request_id: clock.new_id().to_string(),
            key_id: None,
            action: "export_audit".to_owned(),
            target: None,
            details: json!({"by": "facescan audit export"}).to_string(),
        };
        store.append_audit(&[entry]).await?;
    }
    let mut out = BufWriter::new(io::stdout().lock());
    let lines = export(store, &tenant, |entry| {
        serde_json::to_writer(&mut out, &entry)?;
        Ok::<_, anyhow::Error>(out.write_all(b"\n")?)
    });
    if let Err(error) = lines.await {
        bail!("the export is not complete: {error:#}");
    }
    Ok(out.flush()?)
}
