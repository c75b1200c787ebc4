//! Protocol versions and what each can carry (table 3.2).

/// A protocol version that we speak. Later ones compare greater.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Version {
    /// `2024-11-05`: the first; no audio, no annotations of tools. Its own transport, HTTP+SSE, is not spoken, but
    /// clients of this version come over stdio and over Streamable HTTP.
    V2024_11_05,
    /// `2025-03-26`: no tasks, batches.
    V2025_03_26,
    /// `2025-06-18`: no tasks, form elicitation.
    V2025_06_18,
    /// `2025-11-25`: dialect A.
    V2025_11_25,
    /// `2026-07-28`: stateless, dialect B.
    V2026_07_28,
}

/// The two ways of opening a conversation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Era {
    /// `initialize` and a session.
    Legacy,
    /// Everything in every request.
    Modern,
}

impl Version {
    /// All of them, newest first, as we list them.
    pub const SUPPORTED: [Version; 5] = [
        Version::V2026_07_28,
        Version::V2025_11_25,
        Version::V2025_06_18,
        Version::V2025_03_26,
        Version::V2024_11_05,
    ];

    /// The newest that has a handshake.
    pub const NEWEST_LEGACY: Version = Version::V2025_11_25;

    /// The stateless one.
    pub const MODERN: Version = Version::V2026_07_28;

    /// Its name on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Version::V2024_11_05 => "2024-11-05",
            Version::V2025_03_26 => "2025-03-26",
            Version::V2025_06_18 => "2025-06-18",
            Version::V2025_11_25 => "2025-11-25",
            Version::V2026_07_28 => "2026-07-28",
        }
    }

    /// The version of that name, if we speak it.
    #[must_use]
    pub fn parse(text: &str) -> Option<Version> {
        Version::SUPPORTED.into_iter().find(|version| version.as_str() == text)
    }

    /// How a conversation in it is opened.
    #[must_use]
    pub fn era(self) -> Era {
        match self {
            Version::V2024_11_05 | Version::V2025_03_26 | Version::V2025_06_18 | Version::V2025_11_25 => {
                Era::Legacy
            }
            Version::V2026_07_28 => Era::Modern,
        }
    }

    /// Whether it is stateless.
    #[must_use]
    pub fn is_modern(self) -> bool {
        self.era() == Era::Modern
    }

    /// The answer to `initialize`: the requested version if it has a handshake and we speak it, else the
    /// newest that has one (D-002, A-008). Never the stateless one, whatever was asked.
    #[must_use]
    pub fn negotiate(requested: &str) -> Version {
        match Version::parse(requested) {
            Some(version) if !version.is_modern() => version,
            Some(_) | None => Version::NEWEST_LEGACY,
        }
    }

    /// Whether it has the core tasks of dialect A.
    #[must_use]
    pub fn has_tasks_a(self) -> bool {
        self == Version::V2025_11_25
    }

    /// Whether it has the tasks extension, dialect B (B-116).
    #[must_use]
    pub fn has_tasks_b(self) -> bool {
        self.is_modern()
    }

    /// Whether a form may be put to the user.
    #[must_use]
    pub fn has_form_elicitation(self) -> bool {
        self >= Version::V2025_06_18
    }

    /// Whether a URL may be put to the user.
    #[must_use]
    pub fn has_url_elicitation(self) -> bool {
        self >= Version::V2025_11_25
    }

    /// Whether a URL request carries an `elicitationId` (A-105, B-143).
    #[must_use]
    pub fn has_elicitation_id(self) -> bool {
        self == Version::V2025_11_25
    }

    /// Whether several messages may come in one array (D-005).
    #[must_use]
    pub fn has_batches(self) -> bool {
        self == Version::V2025_03_26
    }

    /// Whether `MCP-Protocol-Version` stands on every HTTP request (A-136, B-039).
    #[must_use]
    pub fn has_version_header(self) -> bool {
        self >= Version::V2025_06_18
    }

    /// Whether a session id may be given.
    #[must_use]
    pub fn has_sessions(self) -> bool {
        !self.is_modern()
    }

    /// Whether tool results have `structuredContent` and tools `outputSchema` (G-005).
    #[must_use]
    pub fn has_structured_output(self) -> bool {
        self >= Version::V2025_06_18
    }

    /// Whether `structuredContent` may be any value rather than an object (B-151, X-055).
    #[must_use]
    pub fn has_any_structured_output(self) -> bool {
        self.is_modern()
    }

    /// Whether content may be audio (G-005).
    #[must_use]
    pub fn has_audio(self) -> bool {
        self >= Version::V2025_03_26
    }

    /// Whether tools have `annotations` (G-005).
    #[must_use]
    pub fn has_tool_annotations(self) -> bool {
        self >= Version::V2025_03_26
    }

    /// Whether content may be a `resource_link` (G-005).
    #[must_use]
    pub fn has_resource_links(self) -> bool {
        self >= Version::V2025_06_18
    }

    /// Whether things have a `title` (G-005).
    #[must_use]
    pub fn has_titles(self) -> bool {
        self >= Version::V2025_06_18
    }

    /// Whether things have `icons`, and implementations a `websiteUrl` and a `description` (G-005).
    #[must_use]
    pub fn has_icons(self) -> bool {
        self >= Version::V2025_11_25
    }

    /// Whether lists and discovery carry `ttlMs` and `cacheScope` (B-153).
    #[must_use]
    pub fn has_cache_hints(self) -> bool {
        self.is_modern()
    }

    /// Whether results carry `resultType` (B-011).
    #[must_use]
    pub fn has_result_type(self) -> bool {
        self.is_modern()
    }
}
