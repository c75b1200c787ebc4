//! From files to a [`Config`], or to everything that is wrong with them.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::de::DeTable;

use super::mcp_json::{self, McpJson};
use super::problem::{Problem, Problems};
use super::raw::{RawConfig, RawServer};
use super::understand::{Fault, resolve, store, understand};
use super::{Config, place, reference, unknown};
use crate::environment::Environment;

/// Where the configuration stands.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// In a TOML file.
    Toml(PathBuf),
    /// Servers in an mcp.json; everything else by default.
    McpJson(PathBuf),
}

/// Reads the files and understands them.
pub(crate) fn load(source: &Source, environment: &Environment) -> Result<Config, Vec<Problems>> {
    match source {
        Source::Toml(path) => load_written(path, environment).map(|(config, _)| config),
        Source::McpJson(path) => {
            let file = JsonFile::read(path)?;
            let raw = RawConfig::default();
            let servers = file.servers();
            understand(&raw, &servers, folder(path), environment).map_err(|faults| {
                let problems = faults.into_iter().map(|fault| file.problem(fault)).collect();
                vec![Problems::of_config(&file.name, &file.text, problems)]
            })
        }
    }
}

/// The same of a TOML file, and what is written there.
pub(crate) fn load_written(
    path: &Path,
    environment: &Environment,
) -> Result<(Config, RawConfig), Vec<Problems>> {
    let text = read(path)?;
    toml(path, &text, environment)
}

/// Only where the store of a configuration is. Whoever asks about its tasks need not have its secrets.
///
/// # Errors
/// The file cannot be read, or is no TOML.
pub(crate) fn store_of(path: &Path, environment: &Environment) -> Result<Option<PathBuf>, Vec<Problems>> {
    let text = read(path)?;
    let name = path.display().to_string();
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
        vec![Problems::of_config(&name, &text, vec![of_toml(&error, "is no TOML")])]
    })?;
    let written = table.get("store").and_then(|store| store.get("path")).and_then(toml::Value::as_str);
    Ok(store(written, folder(path), environment))
}

fn toml(path: &Path, text: &str, environment: &Environment) -> Result<(Config, RawConfig), Vec<Problems>> {
    let name = path.display().to_string();
    let refused = |problems| vec![Problems::of_config(&name, text, problems)];
    let document = DeTable::parse(text).map_err(|error| refused(vec![of_toml(&error, "is no TOML")]))?;
    let unknown = unknown::keys(document.get_ref(), &reference::plain_schema());
    if !unknown.is_empty() {
        return Err(refused(unknown));
    }
    let deserializer = toml::Deserializer::from(document.clone());
    let raw = RawConfig::deserialize(deserializer)
        .map_err(|error| refused(vec![of_toml(&error, "is not understood")]))?;
    let json = match &raw.mcp_json {
        Some(named) => {
            Some(JsonFile::read(&resolve(named, folder(path), environment)).map_err(|mut problems| {
                if let Some(problem) = problems.iter_mut().flat_map(|file| &mut file.problems).next()
                    && problem.at.is_none()
                {
                    // The file is named here, so this is where to look.
                    let at = place::of_value(document.get_ref(), &["mcp_json"]);
                    return refused(vec![Problem { at, ..problem.clone() }]);
                }
                problems
            })?)
        }
        None => None,
    };
    let Merged { servers, elsewhere, faults } = merge(&raw, json.as_ref(), folder(path));
    let understood = understand(&raw, &servers, folder(path), environment);
    let faults = match understood {
        Ok(mut config) if faults.is_empty() => {
            for named in &mut config.named {
                let at = place::of_key(document.get_ref(), &["workflows", &named.section]);
                let line =
                    at.and_then(|at| text.get(..at.start)).map(|before| before.matches('\n').count() + 1);
                named.at = line.map(|line| (name.clone(), line));
            }
            return Ok((config, raw));
        }
        Ok(_) => faults,
        Err(mut more) => {
            more.extend(faults);
            more
        }
    };
    let (there, here): (Vec<_>, Vec<_>) = faults.into_iter().partition(|fault| elsewhere.holds(fault));
    let mut files = Vec::new();
    if !here.is_empty() {
        files.extend(refused(here.into_iter().map(|fault| at(document.get_ref(), text, fault)).collect()));
    }
    if let (Some(json), false) = (&json, there.is_empty()) {
        let problems = there.into_iter().map(|fault| json.problem(fault)).collect();
        files.push(Problems::of_config(&json.name, &json.text, problems));
    }
    Err(files)
}

/// Which keys of which servers stand in the mcp.json.
struct Elsewhere(Vec<String>);

impl Elsewhere {
    fn holds(&self, fault: &Fault) -> bool {
        let transport = ["command", "args", "env", "cwd", "url", "headers"];
        match fault.path.as_slice() {
            [section, name, key, ..] => {
                section == "servers" && self.0.contains(name) && transport.contains(&key.as_str())
            }
            [section, name] => section == "servers" && self.0.contains(name),
            [] | [_] => false,
        }
    }
}

struct Merged {
    servers: BTreeMap<String, (RawServer, PathBuf)>,
    elsewhere: Elsewhere,
    faults: Vec<Fault>,
}

/// The servers of both files. One that stands in both is reached as the mcp.json says, and treated as this file says.
fn merge(raw: &RawConfig, json: Option<&JsonFile>, folder: &Path) -> Merged {
    let mut servers = json.map(JsonFile::servers).unwrap_or_default();
    let elsewhere = Elsewhere(servers.keys().cloned().collect());
    let mut faults = Vec::new();
    for (name, here) in &raw.servers {
        let merged = match servers.get(name) {
            None => (here.clone(), folder.to_owned()),
            Some((there, folder)) => {
                let own = [("command", here.command.is_some()), ("url", here.url.is_some())];
                if let Some((key, _)) = own.into_iter().find(|(_, given)| *given) {
                    faults.push(Fault::new(
                        &["servers", name, "path"],
                        format!("server {name:?} has a `{key}` here and stands in the mcp.json too"),
                        "rename one of them, or leave how it is reached to the mcp.json",
                    ));
                }
                let reached = RawServer {
                    command: there.command.clone(),
                    args: there.args.clone(),
                    env: there.env.clone(),
                    cwd: there.cwd.clone(),
                    url: there.url.clone(),
                    headers: there.headers.clone(),
                    ..here.clone()
                };
                (reached, folder.clone())
            }
        };
        servers.insert(name.clone(), merged);
    }
    Merged { servers, elsewhere, faults }
}

/// A problem of the file as TOML.
fn of_toml(error: &toml::de::Error, what: &str) -> Problem {
    let said = plain(unquoted(&error.message().trim_end().replace('\n', ", ")));
    let at = error.span().map(widen);
    Problem { what: format!("this {what}: {said}"), help: help(&said).map(str::to_owned), at }
}

/// What was said of a value of the wrong kind, without the value: it could be a secret in the wrong place.
fn unquoted(said: &str) -> String {
    for kind in ["invalid type: string ", "invalid value: string "] {
        if let Some((begin, rest)) = said.split_once(kind)
            && let Some((_, expected)) = rest.rsplit_once("\", expected ")
        {
            return format!("{begin}{}a text, expected {expected}", kind.trim_end_matches("string "));
        }
    }
    said.to_owned()
}

/// What is expected, in words that are not those of this program's source.
fn plain(said: String) -> String {
    let Some((begin, expected)) = said.rsplit_once(", expected ") else { return said };
    let expected = match expected {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number, which may be negative",
        "a boolean" | "bool" => "true or false",
        "a string" | "string" => "a text in quotes",
        "a sequence" => "a list, such as [\"a\", \"b\"]",
        "a map" => "a table, such as { a = \"b\" }",
        expected => expected,
    };
    format!("{begin}, expected {expected}")
}

fn help(said: &str) -> Option<&'static str> {
    (said.contains("invalid type: integer") && said.contains("with its unit"))
        .then_some("write the number with its unit in quotes, such as \"45s\" or \"4MiB\"")
}

/// An empty span cannot be underlined.
fn widen(at: Range<usize>) -> Range<usize> {
    at.start..at.end.max(at.start)
}

fn at(document: &DeTable<'_>, text: &str, fault: Fault) -> Problem {
    let path: Vec<&str> = fault.path.iter().map(String::as_str).collect();
    // A section as a whole is pointed at by its name, anything else by its value.
    let is_section = matches!(
        path.as_slice(),
        ["servers" | "workflows", _] | ["workflows", _, "receipt" | "probe" | "fence"]
    );
    let at = if is_section { place::of_key(document, &path) } else { place::of_value(document, &path) };
    let at = at.map(|at| fault.inside.and_then(|inside| place::inside(text, &at, inside)).unwrap_or(at));
    Problem { what: fault.what, help: Some(fault.help), at }
}

/// An mcp.json that was read.
struct JsonFile {
    name: String,
    text: String,
    folder: PathBuf,
    found: McpJson,
}

impl JsonFile {
    fn read(path: &Path) -> Result<JsonFile, Vec<Problems>> {
        let text = read(path)?;
        let name = path.display().to_string();
        let found = mcp_json::parse(&name, &text).map_err(|problems| vec![problems])?;
        Ok(JsonFile { name, text, folder: folder(path).to_owned(), found })
    }

    fn servers(&self) -> BTreeMap<String, (RawServer, PathBuf)> {
        let with_folder =
            |(name, server): (&String, &RawServer)| (name.clone(), (server.clone(), self.folder.clone()));
        self.found.servers.iter().map(with_folder).collect()
    }

    fn problem(&self, fault: Fault) -> Problem {
        let at = fault.path.get(1).and_then(|name| self.found.places.get(name)).map(|entry| {
            // The key nearest to what is wrong, or else the entry's first character.
            let inside = &self.text[entry.clone()];
            let key = fault.path.iter().skip(2).rev().find_map(|key| mcp_json::key(inside, key));
            key.map_or(entry.start..entry.start + 1, |key| entry.start + key.start..entry.start + key.end)
        });
        let what = match fault.path.get(1) {
            Some(name) if !fault.what.contains(name.as_str()) => format!("server {name:?}: {}", fault.what),
            Some(_) | None => fault.what,
        };
        Problem { what, help: Some(fault.help), at }
    }
}

fn read(path: &Path) -> Result<String, Vec<Problems>> {
    std::fs::read_to_string(path)
        .map_err(|error| vec![Problems::unreadable(&path.display().to_string(), &error)])
}

fn folder(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new(""))
}
