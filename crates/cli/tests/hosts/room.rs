//! A state folder in which nothing can be kept.
//!
//! The host, and with it everything that it starts, is in a mount namespace of its own, where the state folder is
//! read-only, or a small file system that is full. That needs root, or a kernel that lets everybody have such a
//! namespace.

use std::fs::{self, File};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::PathBuf;
use std::thread;

use serde_json::json;

use crate::home::{Home, Launch, mark};
use crate::host::Client;
use crate::pace::pace;

/// Set in the namespace before the host starts. `$STATE` is the state folder; the folder that the keeper takes instead
/// is ours alone, whoever else is on this machine.
const READ_ONLY: &str = "mount --bind \"$STATE\" \"$STATE\"; mount -o remount,bind,ro \"$STATE\"";
const FULL: &str =
    "mount -t tmpfs -o size=64k tmpfs \"$STATE\"; cat /dev/zero >\"$STATE/ballast\" 2>/dev/null || true";
const SMALL: &str = "mount -t tmpfs -o size=16m tmpfs \"$STATE\"";

/// Where the keeper goes. In a namespace of its own everybody is root.
const ELSEWHERE: &str = "/tmp/taskgate-0";

pub(crate) fn read_only(client: Client, launch: Launch) -> String {
    ends_elsewhere(client, launch, READ_ONLY)
}

pub(crate) fn full(client: Client, launch: Launch) -> String {
    ends_elsewhere(client, launch, FULL)
}

/// The call ends as ever; its record is kept in another place, which is said.
fn ends_elsewhere(client: Client, launch: Launch, script: &str) -> String {
    let home = within(script);
    let mark = mark();
    let args = json!({ "seconds": pace().tool().as_secs(), "order": mark }).to_string();
    let host = home.host(client, &["--tool", "charge", "--args", &args], &home.run(&[], launch));
    home.until(&mark, "start", 1);
    home.has_one_of_each();
    let figures = host.report().ends(&format!("charged {mark}"), 4);
    let said = fs::read_to_string(home.file("stderr")).unwrap();
    assert!(said.contains(ELSEWHERE), "nobody was told where tasks are kept: {said}");
    assert_eq!((home.times(&mark, "start"), home.times(&mark, "end")), (1, 1));
    format!("{figures}; {}", home.empties())
}

/// The file system fills up under a running keeper: a call is refused before it is made, with words; when there is
/// room again, it is taken. A call that was under way meanwhile ends as ever.
pub(crate) fn fills_up(client: Client, launch: Launch) -> String {
    let mut home = within(SMALL);
    let server = home.run(&[], launch);
    let stays = mark();
    let seconds = pace().tool().as_secs().max(40);
    let args = json!({ "seconds": seconds, "order": stays }).to_string();
    let host = home.host(client, &["--tool", "charge", "--args", &args], &server);
    home.until(&stays, "start", 1);
    let keeper = home.has_one_of_each().keepers()[0].pid;
    // Hosts that come later have to be in the namespace of the first. It is held open, since by the time that they may start
    // the first may have left, and its keeper with it.
    let hold = |kind: &str| File::open(format!("/proc/{keeper}/ns/{kind}")).unwrap();
    let held = |kind: &str, file: &File| format!("--{kind}={}", path_of(file).display());
    let (mounts, users) = (hold("mnt"), hold("user"));
    home.around = vec!["nsenter".to_owned(), held("mount", &mounts)];
    if !is_root() {
        home.around.extend([held("user", &users), "--preserve-credentials".to_owned()]);
    }
    let call = |mark: &str| {
        let args = json!({ "seconds": 1, "order": mark }).to_string();
        home.host(client, &["--tool", "charge", "--args", &args], &server).report()
    };
    let ballast = fill(&home, keeper);
    let (refused, taken) = (mark(), mark());
    let report = call(&refused);
    assert_eq!(report.0["ok"], false, "{}", report.summary());
    assert_eq!(home.times(&refused, "start"), 0, "{}", report.summary());
    let words = report.last_words();
    ballast.take_away();
    call(&taken).ends(&format!("charged {taken}"), 1);
    let figures = host.report().ends(&format!("charged {stays}"), if pace().is_real() { 4 } else { 12 });
    assert_eq!((home.times(&stays, "start"), home.times(&taken, "start")), (1, 1));
    format!("refused with {words:?}, then taken; the call meanwhile: {figures}; {}", home.empties())
}

/// The server's answer comes when there is no room for it. Once there is, the result is there: it is not lost, and
/// the call is not made again.
pub(crate) fn ends_while_full(client: Client, launch: Launch) -> String {
    let home = within(SMALL);
    let mark = mark();
    let seconds = pace().seconds(60).as_secs();
    let args = json!({ "seconds": seconds, "order": mark }).to_string();
    let server = home.run(&[], launch);
    let mut host = home.host(client, &["--tool", "charge", "--args", &args], &server);
    home.until(&mark, "start", 1);
    let keeper = home.has_one_of_each().keepers()[0].pid;
    let ballast = fill(&home, keeper);
    home.until(&mark, "end", 1);
    host.until_turn(2);
    // The answer has come by now, or will have in this time.
    thread::sleep(pace().seconds(20));
    ballast.take_away();
    let figures = host.report().ends(&format!("charged {mark}"), 4);
    assert_eq!((home.times(&mark, "start"), home.times(&mark, "end")), (1, 1));
    format!("{figures}; {}", home.empties())
}

/// What leaves no room in a keeper's file system. It can be taken away also when that keeper is gone.
struct Ballast(File);

impl Ballast {
    fn take_away(self) {
        fs::remove_file(path_of(&self.0).join("ballast")).unwrap();
    }
}

/// Leaves no room in the keeper's file system.
fn fill(home: &Home, keeper: i32) -> Ballast {
    let folder = File::open(format!("/proc/{keeper}/root{}", state(home).display())).unwrap();
    let mut file = File::create(path_of(&folder).join("ballast")).unwrap();
    for size in [1 << 16, 1] {
        while file.write_all(&vec![0; size]).is_ok() {}
    }
    Ballast(folder)
}

/// What is open here, as another process of ours finds it.
fn path_of(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()))
}

fn state(home: &Home) -> PathBuf {
    home.path().join(".local/state")
}

/// A home in a namespace of its own, prepared by this script.
fn within(script: &str) -> Home {
    let mut home = Home::new();
    fs::create_dir_all(state(&home)).unwrap();
    // The place to mount at is made where it is needed: what is kept there is kept in this home.
    let mut private = fs::DirBuilder::new();
    private.mode(0o700);
    private.create(home.file("elsewhere")).unwrap();
    let script = format!(
        "set -e\nSTATE='{}'\n{script}\nmkdir -p -m 700 {ELSEWHERE}\nmount --bind '{}' {ELSEWHERE}\nexec \"$@\"",
        state(&home).display(),
        home.file("elsewhere").display(),
    );
    let mut around = vec!["unshare", "--mount", "--propagation", "private"];
    if !is_root() {
        around.push("--map-root-user");
    }
    around.extend(["sh", "-c", &script, "sh"]);
    home.around = around.into_iter().map(String::from).collect();
    home
}

fn is_root() -> bool {
    fs::metadata("/proc/self").unwrap().uid() == 0
}
