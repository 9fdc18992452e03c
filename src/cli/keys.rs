//! `facescan keys`: keys of the API in the database.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use anyhow::bail;
use clap::{Args, Subcommand};
use comfy_table::{Table, presets::NOTHING};
use facescan_audit::{AuditEvent, command_entry};
use facescan_clock::{Clock, SystemClock};
use facescan_config::{Config, ConfiguredKey, KeyDigest, scope::Scope};
use facescan_store::{ApiKey, NewAuditEntry, Store};
use secrecy::ExposeSecret;
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use super::runtime::{open_database, tokio_runtime};
use crate::access::{
    keys::{self, NewKey},
    secret::{NewSecret, is_id},
};

/// What to do with keys.
#[derive(Debug, Subcommand)]
pub enum KeysCommand {
    /// Create a key and print it. Nothing shows it again.
    Create(CreateArgs),
    /// List the keys of a tenant.
    List {
        /// The tenant. The default is `store.tenant`.
        #[arg(long)]
        tenant: Option<String>,
    },
    /// Create a key like another one, and print it. The other one stays valid until it is revoked.
    Rotate {
        /// The id: the part of the key between `fsk_` and the next `_`.
        id: String,
        /// The tenant. The default is `store.tenant`.
        #[arg(long)]
        tenant: Option<String>,
        /// Also revoke the other key. Servers accept it for `access.key_cache_s` more seconds.
        #[arg(long)]
        revoke: bool,
    },
    /// Revoke a key. Servers accept it for `access.key_cache_s` more seconds.
    Revoke {
        /// The id: the part of the key between `fsk_` and the next `_`.
        id: String,
        /// The tenant. The default is `store.tenant`.
        #[arg(long)]
        tenant: Option<String>,
    },
}

/// The arguments of `facescan keys create`.
#[derive(Debug, Args)]
pub struct CreateArgs {
    /// A name for the key.
    #[arg(long)]
    name: String,
    /// What the key may do.
    #[arg(long, value_delimiter = ',', required = true)]
    scopes: Vec<Scope>,
    /// The tenant whose results the key reads and writes. The default is `store.tenant`.
    #[arg(long)]
    tenant: Option<String>,
    /// The days after which the key expires, 1 to 36500. By default it never does.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=36_500))]
    expires_in_days: Option<u32>,
    /// Do not store the key. Print an entry for the setting `access.keys` too.
    #[arg(long)]
    digest: bool,
}

pub fn run(config: &Config, command: KeysCommand) -> anyhow::Result<ExitCode> {
    let own = |tenant: Option<String>| tenant.unwrap_or_else(|| config.store.tenant.clone());
    let clock = SystemClock::start();
    if let KeysCommand::Create(args) = &command
        && args.digest
    {
        let new = new_key(args, own(args.tenant.clone()), clock.now())?;
        return print_entry(new, clock.now());
    }
    tokio_runtime()?.block_on(async {
        let store = open_database(config).await?;
        let keys = StoredKeys {
            store: &store,
            config,
            clock: &clock,
        };
        match command {
            KeysCommand::Create(args) => {
                let new = new_key(&args, own(args.tenant.clone()), clock.now())?;
                keys.create(new).await?;
            }
            KeysCommand::List { tenant } => print_list(&store.list_keys(&own(tenant)).await?)?,
            KeysCommand::Rotate { id, tenant, revoke } => {
                let tenant = own(tenant);
                keys.create(keys.like(&tenant, &id).await?).await?;
                match revoke {
                    true => keys.revoke(&tenant, &id).await?,
                    false => eprintln!(
                        "the key {id} is still valid: `facescan keys list` shows its last use, and `facescan keys revoke {id}` \
                         ends it"
                    ),
                }
            }
            KeysCommand::Revoke { id, tenant } => keys.revoke(&own(tenant), &id).await?,
        }
        store.close().await;
        Ok(ExitCode::SUCCESS)
    })
}

/// The keys in the database.
struct StoredKeys<'a> {
    store: &'a Store,
    config: &'a Config,
    clock: &'a SystemClock,
}

impl StoredKeys<'_> {
    /// Creates a key and prints it.
    async fn create(&self, new: NewKey) -> anyhow::Result<()> {
        let tenant = new.tenant.clone();
        let entry = |event| entry(self.config, self.clock, (&tenant, event));
        let (_, text) = keys::create(self.store, self.clock.now(), new, entry).await?;
        Ok(writeln!(io::stdout(), "{}", text.expose_secret())?)
    }

    /// Returns a new key with the name, the scopes and the end of another one.
    async fn like(&self, tenant: &str, id: &str) -> anyhow::Result<NewKey> {
        let key = self.store.key(id).await?.filter(|key| key.tenant == tenant);
        let Some(key) = key.filter(|key| key.revoked_at.is_none()) else {
            bail!("the tenant {tenant} has no key {id} that is not revoked");
        };
        Ok(NewKey {
            tenant: key.tenant,
            name: key.name,
            scopes: Scope::of_names(key.scopes.iter().map(String::as_str)).to_vec(),
            expires_at: key.expires_at,
        })
    }

    async fn revoke(&self, tenant: &str, id: &str) -> anyhow::Result<()> {
        let entry = |event| entry(self.config, self.clock, (tenant, event));
        if !is_id(id) || !keys::revoke(self.store, self.clock.now(), (tenant, id), entry).await? {
            bail!("the tenant {tenant} has no key {id}");
        }
        Ok(())
    }
}

fn new_key(args: &CreateArgs, tenant: String, now: OffsetDateTime) -> anyhow::Result<NewKey> {
    let after = |days| now.checked_add(time::Duration::days(i64::from(days)));
    let expires_at = args.expires_in_days.map(after);
    if expires_at == Some(None) {
        bail!("the key would expire after the last date of the calendar; use fewer days");
    }
    Ok(NewKey {
        tenant,
        name: args.name.clone(),
        scopes: args.scopes.clone(),
        expires_at: expires_at.flatten(),
    })
}

/// Returns the entry of a change in the audit trail.
fn entry(
    config: &Config,
    clock: &dyn Clock,
    (tenant, mut event): (&str, AuditEvent),
) -> Option<NewAuditEntry> {
    event.details["by"] = "facescan keys".into();
    command_entry(config.audit.level, clock, tenant, event)
}

/// Prints a new key and its entry for the settings.
fn print_entry(new: NewKey, now: OffsetDateTime) -> anyhow::Result<ExitCode> {
    let scopes = new.scopes.clone();
    let (key, text) = keys::make(new, NewSecret::generate()?, now)?;
    let entry = ConfiguredKey {
        id: key.id,
        sha256: KeyDigest(key.digest),
        tenant: key.tenant,
        scopes,
        expires_at: key.expires_at,
    };
    let mut out = io::stdout();
    writeln!(out, "{}", text.expose_secret())?;
    writeln!(out, "{}", serde_json::to_string(&entry)?)?;
    Ok(ExitCode::SUCCESS)
}

fn print_list(keys: &[ApiKey]) -> anyhow::Result<()> {
    let time = |time: Option<OffsetDateTime>| match time {
        None => Ok(String::new()),
        Some(time) => time.format(&Rfc3339),
    };
    let mut table = Table::new();
    table.load_style(NOTHING);
    table.set_header([
        "id",
        "name",
        "scopes",
        "created",
        "expires",
        "revoked",
        "last used",
    ]);
    for key in keys {
        table.add_row([
            key.id.clone(),
            key.name.clone(),
            key.scopes.join(","),
            time(Some(key.created_at))?,
            time(key.expires_at)?,
            time(key.revoked_at)?,
            time(key.last_used_at)?,
        ]);
    }
    writeln!(io::stdout(), "{table}")?;
    Ok(())
}
