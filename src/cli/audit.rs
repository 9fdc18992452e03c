//! `facescan audit`: the audit trail in the database.

use std::{
    collections::BTreeSet,
    io::{self, BufWriter, Write},
    path::PathBuf,
    process::ExitCode,
};

use anyhow::bail;
use clap::Subcommand;
use facescan_audit::{
    AuditEvent, command_entry,
    heads::{NotedHeads, read_heads},
    key::AuditKey,
    verify::{Evidence, NotedHead, Verdict, export, verify},
};
use facescan_clock::SystemClock;
use facescan_config::Config;
use facescan_pipeline::core::image_file::{hash_from_hex, hex};
use facescan_store::{Store, StoreError};
use serde_json::json;

use super::runtime::{open_database, tokio_runtime};

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
        /// A head that was noted before: NUMBER:HASH. It needs `--tenant`, and can be repeated.
        #[arg(long, value_name = "NUMBER:HASH", value_parser = read_head, requires = "tenant")]
        head: Vec<NotedHead>,
        /// A file of heads that `audit.heads` has written. It can be repeated.
        #[arg(long, value_name = "FILE")]
        heads: Vec<PathBuf>,
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
        let number = number.parse().ok()?;
        (number > 0).then_some(NotedHead {
            number,
            hash: hash_from_hex(hash).ok()?,
        })
    };
    read().ok_or_else(|| "must be a number from 1, a colon and 64 hex digits".to_owned())
}

pub fn run(config: &Config, command: AuditCommand) -> anyhow::Result<ExitCode> {
    let key = AuditKey::new(config.audit.secret.as_ref());
    let noted = match &command {
        AuditCommand::Verify {
            tenant,
            head,
            heads,
        } => noted(tenant.as_deref(), (head, heads), key.as_ref())?,
        AuditCommand::Export { .. } => NotedHeads::new(),
    };
    tokio_runtime()?.block_on(async {
        let store = open_database(config).await?;
        let code = match command {
            AuditCommand::Verify { tenant, .. } => {
                let check = ChainCheck {
                    config,
                    store: &store,
                    noted,
                    key,
                };
                check.run(tenant).await?
            }
            AuditCommand::Export { tenant } => {
                let tenant = tenant.unwrap_or_else(|| config.store.tenant.clone());
                export_chain(config, &store, tenant).await?;
                ExitCode::SUCCESS
            }
        };
        store.close().await;
        Ok(code)
    })
}

/// Returns the heads of the arguments and of the files.
fn noted(
    tenant: Option<&str>,
    (heads, files): (&[NotedHead], &[PathBuf]),
    key: Option<&AuditKey>,
) -> anyhow::Result<NotedHeads> {
    let mut noted = NotedHeads::new();
    for file in files {
        for (tenant, heads) in read_heads(file, key)? {
            noted.entry(tenant).or_default().extend(heads);
        }
    }
    if let Some(tenant) = tenant {
        noted.retain(|other, _| other == tenant);
        noted.entry(tenant.to_owned()).or_default().extend(heads);
    }
    Ok(noted)
}

/// A check of chains against what was noted.
struct ChainCheck<'a> {
    config: &'a Config,
    store: &'a Store,
    noted: NotedHeads,
    key: Option<AuditKey>,
}

impl ChainCheck<'_> {
    async fn run(&self, tenant: Option<String>) -> anyhow::Result<ExitCode> {
        let mut tenants: BTreeSet<String> = self.noted.keys().cloned().collect();
        match tenant {
            Some(tenant) => {
                tenants.insert(tenant);
            }
            None => tenants.extend(self.store.audited_tenants().await?),
        }
        let mut code = ExitCode::SUCCESS;
        for tenant in tenants {
            if !self.print(&tenant).await? {
                code = ExitCode::FAILURE;
            }
        }
        Ok(code)
    }

    /// Prints the state of a chain. Returns whether it is intact.
    async fn print(&self, tenant: &str) -> anyhow::Result<bool> {
        let evidence = Evidence {
            heads: self.noted.get(tenant).map_or(&[], Vec::as_slice),
            key: self.key.as_ref(),
            expires: self.config.retention.of(tenant).audit.is_some(),
        };
        let mut out = io::stdout();
        let verdict = match verify(self.store, tenant, evidence).await {
            Err(error @ StoreError::Corrupt(_)) => {
                // One damaged row must not hide the chains of the other tenants.
                let error = anyhow::Error::from(error);
                writeln!(out, "{tenant}: broken: {error:#}")?;
                return Ok(false);
            }
            verdict => verdict?,
        };
        match verdict {
            Verdict::Intact { entries, chain } => {
                let (first, last, hash) = (chain.deleted + 1, chain.last, hex(&chain.last_hash));
                writeln!(
                    out,
                    "{tenant}: intact, {entries} entries from {first}, head {last}:{hash}"
                )?;
                Ok(true)
            }
            Verdict::Broken { number, fault } => {
                writeln!(out, "{tenant}: broken at entry {number}: {fault}")?;
                Ok(false)
            }
        }
    }
}

async fn export_chain(config: &Config, store: &Store, tenant: String) -> anyhow::Result<()> {
    let event = AuditEvent {
        target: None,
        ..AuditEvent::change("export_audit", "").with(json!({"by": "facescan audit export"}))
    };
    let clock = SystemClock::start();
    let entry = command_entry(config.audit.level, &clock, &tenant, event);
    store.append_audit(entry.as_slice()).await?;
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
