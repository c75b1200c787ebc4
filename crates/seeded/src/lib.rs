//! Bugs that are put in on purpose, to see that the tests find them (notes 3.5).
//!
//! Without the feature `on`, [`is`] is a constant `false` and nothing is left of any of them. With it, the environment
//! chooses one. A build without debug assertions, as every release is, cannot have the feature.
#![cfg_attr(not(feature = "on"), no_std)]

#[cfg(all(feature = "on", not(debug_assertions)))]
compile_error!("seeded bugs are for tests only: build without the feature `taskgate-seeded/on`");

macro_rules! bugs {
    ($($(#[$doc:meta])* $bug:ident = $name:literal,)*) => {
        /// One of them.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum Bug {
            $($(#[$doc])* $bug,)*
        }

        impl Bug {
            /// All of them.
            pub const ALL: &'static [Bug] = &[$(Bug::$bug,)*];

            /// How the environment names it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Bug::$bug => $name,)*
                }
            }
        }
    };
}

bugs! {
    /// The store answers before its commit.
    AnswerBeforeCommit = "answer-before-commit",
    /// The store's commits are not synced.
    SyncNormal = "sync-normal",
    /// The store reads what a killed process had not synced.
    ReadsUnsynced = "reads-unsynced",
    /// A stale writer may write.
    StaleWrite = "stale-write",
    /// A key is forgotten with its task.
    KeyExpires = "key-expires",
    /// A server's own word that nothing was done gives a key free.
    WordFreesKey = "word-frees-key",
    /// An attempt that repeats another is sent without a look at the clock.
    ClockAskedOnce = "clock-asked-once",
    /// A task is deleted while its operation is open.
    PurgeOpen = "purge-open",
    /// A key joins whatever was asked under it.
    DigestIgnored = "digest-ignored",
    /// A message that a pipe sends again is a new call.
    FrameIgnored = "frame-ignored",
    /// What is in doubt is sent again.
    RetryUnknown = "retry-unknown",
    /// A look-up that finds nothing is taken for "not applied".
    NotFoundIsNotApplied = "not-found-is-not-applied",
    /// The time to settle counts from the dispatch, and not from the proof that the exchange is over.
    SettleFromDispatch = "settle-from-dispatch",
    /// That the last attempt did nothing is taken for all of them.
    FirstAttemptForgotten = "first-attempt-forgotten",
    /// A task that is over may end again.
    EndsTwice = "ends-twice",
    /// A question may be answered twice.
    AnsweredTwice = "answered-twice",
    /// A call is sent before its record is on disk.
    SendBeforeRecord = "send-before-record",
    /// A change is shown before it is on disk.
    ShowBeforeAppend = "show-before-append",
    /// Who waits looks first and listens then.
    LookBeforeListen = "look-before-listen",
    /// Recovery sends what was cancelled.
    CancelIgnored = "cancel-ignored",
    /// A store that says that it could not is believed.
    ErrorBelieved = "error-believed",
    /// What was cancelled while it waited to be sent again is sent again.
    DispatchUnwanted = "dispatch-unwanted",
    /// A call is sent whose dispatch is not on disk, because the engine stops.
    SendUndispatched = "send-undispatched",
    /// A key is given free while it is unknown what was done under it.
    UnknownFreesKey = "unknown-frees-key",
    /// A key is given free while it is only assumed that nothing was done under it.
    AssumedFreesKey = "assumed-frees-key",
    /// A person's word that turns out wrong is corrected, and nobody is told that its key is another operation's by now.
    CorrectionUntold = "correction-untold",
    /// A word that nothing was done gives a key free, though another operation has it by now.
    CorrectionFreesAgain = "correction-frees-again",
    /// That a connection took a result is not noted.
    HandedUnnoted = "handed-unnoted",
    /// A result counts as given once its answer is made, whether or not anybody takes it.
    GivenWhenMade = "given-when-made",
    /// A call is recorded without the frame by which its pipe would send it again.
    FrameDropped = "frame-dropped",
    /// A task that is under way is found by whoever knows its id.
    FoundByAnyone = "found-by-anyone",
    /// A kept result is read by whoever knows its id, below whichever server's path.
    ResultForOthers = "result-for-others",
    /// What a server says just before its answer is told after it.
    ToldAfterAnswer = "told-after-answer",
}

/// Whether this process has this bug.
#[cfg(not(feature = "on"))]
#[must_use]
pub const fn is(_: Bug) -> bool {
    false
}

/// Whether this process has this bug.
///
/// # Panics
/// If the environment names one that is not there.
#[cfg(feature = "on")]
#[must_use]
pub fn is(bug: Bug) -> bool {
    let is_it = chosen() == Some(bug);
    if is_it {
        tell(bug);
    }
    is_it
}

#[cfg(feature = "on")]
#[expect(clippy::disallowed_methods, reason = "the one place that chooses; it is in no build that is used")]
fn chosen() -> Option<Bug> {
    static CHOSEN: std::sync::OnceLock<Option<Bug>> = std::sync::OnceLock::new();
    *CHOSEN.get_or_init(|| {
        let name = std::env::var("TASKGATE_SEEDED_BUG").ok()?;
        let bug = Bug::ALL.iter().copied().find(|bug| bug.name() == name);
        if bug.is_none() {
            std::process::abort();
        }
        bug
    })
}

/// That its place was reached, so that nobody takes another failure for it.
#[cfg(feature = "on")]
#[expect(clippy::print_stderr, reason = "whoever runs it looks for this line")]
fn tell(bug: Bug) {
    static TOLD: std::sync::Once = std::sync::Once::new();
    TOLD.call_once(|| eprintln!("seeded bug {} was reached", bug.name()));
}
