from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class Init(_message.Message):
    __slots__ = ("epoch", "x_km", "y_km", "direction_deg", "speed_mps", "credential", "visits", "asks")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    X_KM_FIELD_NUMBER: _ClassVar[int]
    Y_KM_FIELD_NUMBER: _ClassVar[int]
    DIRECTION_DEG_FIELD_NUMBER: _ClassVar[int]
    SPEED_MPS_FIELD_NUMBER: _ClassVar[int]
    CREDENTIAL_FIELD_NUMBER: _ClassVar[int]
    VISITS_FIELD_NUMBER: _ClassVar[int]
    ASKS_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    x_km: float
    y_km: float
    direction_deg: float
    speed_mps: float
    credential: bytes
    visits: bool
    asks: int
    def __init__(self, epoch: _Optional[int] = ..., x_km: _Optional[float] = ..., y_km: _Optional[float] = ..., direction_deg: _Optional[float] = ..., speed_mps: _Optional[float] = ..., credential: _Optional[bytes] = ..., visits: _Optional[bool] = ..., asks: _Optional[int] = ...) -> None: ...

class Acknowledge(_message.Message):
    __slots__ = ("session", "report_interval_s", "epoch", "revoked", "signer")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    REPORT_INTERVAL_S_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    REVOKED_FIELD_NUMBER: _ClassVar[int]
    SIGNER_FIELD_NUMBER: _ClassVar[int]
    session: int
    report_interval_s: float
    epoch: int
    revoked: bytes
    signer: bytes
    def __init__(self, session: _Optional[int] = ..., report_interval_s: _Optional[float] = ..., epoch: _Optional[int] = ..., revoked: _Optional[bytes] = ..., signer: _Optional[bytes] = ...) -> None: ...

class Heartbeat(_message.Message):
    __slots__ = ("token", "answer", "unsettled_ms", "lost", "time_us")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    UNSETTLED_MS_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    TIME_US_FIELD_NUMBER: _ClassVar[int]
    token: bytes
    answer: bool
    unsettled_ms: int
    lost: bool
    time_us: int
    def __init__(self, token: _Optional[bytes] = ..., answer: _Optional[bool] = ..., unsettled_ms: _Optional[int] = ..., lost: _Optional[bool] = ..., time_us: _Optional[int] = ...) -> None: ...

class Report(_message.Message):
    __slots__ = ("x_km", "y_km", "direction_deg", "speed_mps")
    X_KM_FIELD_NUMBER: _ClassVar[int]
    Y_KM_FIELD_NUMBER: _ClassVar[int]
    DIRECTION_DEG_FIELD_NUMBER: _ClassVar[int]
    SPEED_MPS_FIELD_NUMBER: _ClassVar[int]
    x_km: float
    y_km: float
    direction_deg: float
    speed_mps: float
    def __init__(self, x_km: _Optional[float] = ..., y_km: _Optional[float] = ..., direction_deg: _Optional[float] = ..., speed_mps: _Optional[float] = ...) -> None: ...

class Publish(_message.Message):
    __slots__ = ("topic", "epoch", "sequence", "oldest", "durable", "payload", "has_position", "x_km", "y_km", "published_us", "envelope")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    OLDEST_FIELD_NUMBER: _ClassVar[int]
    DURABLE_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    HAS_POSITION_FIELD_NUMBER: _ClassVar[int]
    X_KM_FIELD_NUMBER: _ClassVar[int]
    Y_KM_FIELD_NUMBER: _ClassVar[int]
    PUBLISHED_US_FIELD_NUMBER: _ClassVar[int]
    ENVELOPE_FIELD_NUMBER: _ClassVar[int]
    topic: str
    epoch: int
    sequence: int
    oldest: int
    durable: bool
    payload: bytes
    has_position: bool
    x_km: float
    y_km: float
    published_us: int
    envelope: bytes
    def __init__(self, topic: _Optional[str] = ..., epoch: _Optional[int] = ..., sequence: _Optional[int] = ..., oldest: _Optional[int] = ..., durable: _Optional[bool] = ..., payload: _Optional[bytes] = ..., has_position: _Optional[bool] = ..., x_km: _Optional[float] = ..., y_km: _Optional[float] = ..., published_us: _Optional[int] = ..., envelope: _Optional[bytes] = ...) -> None: ...

class Published(_message.Message):
    __slots__ = ("topic", "epoch", "up_to", "level")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    UP_TO_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    topic: str
    epoch: int
    up_to: int
    level: int
    def __init__(self, topic: _Optional[str] = ..., epoch: _Optional[int] = ..., up_to: _Optional[int] = ..., level: _Optional[int] = ...) -> None: ...

class Nack(_message.Message):
    __slots__ = ("topic", "epoch", "expected", "missing")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    topic: str
    epoch: int
    expected: int
    missing: int
    def __init__(self, topic: _Optional[str] = ..., epoch: _Optional[int] = ..., expected: _Optional[int] = ..., missing: _Optional[int] = ...) -> None: ...

class Busy(_message.Message):
    __slots__ = ("topic", "retry_after_ms")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_MS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    retry_after_ms: int
    def __init__(self, topic: _Optional[str] = ..., retry_after_ms: _Optional[int] = ...) -> None: ...

class Subscribe(_message.Message):
    __slots__ = ("request", "topic", "resumes", "where", "area", "follows")
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    RESUMES_FIELD_NUMBER: _ClassVar[int]
    WHERE_FIELD_NUMBER: _ClassVar[int]
    AREA_FIELD_NUMBER: _ClassVar[int]
    FOLLOWS_FIELD_NUMBER: _ClassVar[int]
    request: int
    topic: str
    resumes: bool
    where: str
    area: str
    follows: bool
    def __init__(self, request: _Optional[int] = ..., topic: _Optional[str] = ..., resumes: _Optional[bool] = ..., where: _Optional[str] = ..., area: _Optional[str] = ..., follows: _Optional[bool] = ...) -> None: ...

class Unsubscribe(_message.Message):
    __slots__ = ("request", "topic")
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    request: int
    topic: str
    def __init__(self, request: _Optional[int] = ..., topic: _Optional[str] = ...) -> None: ...

class Confirm(_message.Message):
    __slots__ = ("request", "accepted", "reason", "starts")
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    STARTS_FIELD_NUMBER: _ClassVar[int]
    request: int
    accepted: bool
    reason: str
    starts: int
    def __init__(self, request: _Optional[int] = ..., accepted: _Optional[bool] = ..., reason: _Optional[str] = ..., starts: _Optional[int] = ...) -> None: ...

class Notify(_message.Message):
    __slots__ = ("topic", "publisher", "epoch", "sequence", "durable", "part", "payload", "published_us", "received_us", "processed_us", "notified_us", "processing_us", "broker", "offset", "previous", "envelope")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PUBLISHER_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    DURABLE_FIELD_NUMBER: _ClassVar[int]
    PART_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    PUBLISHED_US_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_US_FIELD_NUMBER: _ClassVar[int]
    PROCESSED_US_FIELD_NUMBER: _ClassVar[int]
    NOTIFIED_US_FIELD_NUMBER: _ClassVar[int]
    PROCESSING_US_FIELD_NUMBER: _ClassVar[int]
    BROKER_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_FIELD_NUMBER: _ClassVar[int]
    ENVELOPE_FIELD_NUMBER: _ClassVar[int]
    topic: str
    publisher: str
    epoch: int
    sequence: int
    durable: bool
    part: int
    payload: bytes
    published_us: int
    received_us: int
    processed_us: int
    notified_us: int
    processing_us: int
    broker: str
    offset: int
    previous: int
    envelope: bytes
    def __init__(self, topic: _Optional[str] = ..., publisher: _Optional[str] = ..., epoch: _Optional[int] = ..., sequence: _Optional[int] = ..., durable: _Optional[bool] = ..., part: _Optional[int] = ..., payload: _Optional[bytes] = ..., published_us: _Optional[int] = ..., received_us: _Optional[int] = ..., processed_us: _Optional[int] = ..., notified_us: _Optional[int] = ..., processing_us: _Optional[int] = ..., broker: _Optional[str] = ..., offset: _Optional[int] = ..., previous: _Optional[int] = ..., envelope: _Optional[bytes] = ...) -> None: ...

class Received(_message.Message):
    __slots__ = ("highest", "bitmap", "all_below")
    HIGHEST_FIELD_NUMBER: _ClassVar[int]
    BITMAP_FIELD_NUMBER: _ClassVar[int]
    ALL_BELOW_FIELD_NUMBER: _ClassVar[int]
    highest: int
    bitmap: int
    all_below: int
    def __init__(self, highest: _Optional[int] = ..., bitmap: _Optional[int] = ..., all_below: _Optional[int] = ...) -> None: ...

class Redirect(_message.Message):
    __slots__ = ("host", "port", "server_key", "credential")
    HOST_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    SERVER_KEY_FIELD_NUMBER: _ClassVar[int]
    CREDENTIAL_FIELD_NUMBER: _ClassVar[int]
    host: str
    port: int
    server_key: bytes
    credential: bytes
    def __init__(self, host: _Optional[str] = ..., port: _Optional[int] = ..., server_key: _Optional[bytes] = ..., credential: _Optional[bytes] = ...) -> None: ...

class Close(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: int
    def __init__(self, reason: _Optional[int] = ...) -> None: ...

class Echo(_message.Message):
    __slots__ = ("payload", "answer")
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    payload: bytes
    answer: bool
    def __init__(self, payload: _Optional[bytes] = ..., answer: _Optional[bool] = ...) -> None: ...

class Way(_message.Message):
    __slots__ = ("number", "count", "host", "port", "server_key", "credential")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    SERVER_KEY_FIELD_NUMBER: _ClassVar[int]
    CREDENTIAL_FIELD_NUMBER: _ClassVar[int]
    number: int
    count: int
    host: str
    port: int
    server_key: bytes
    credential: bytes
    def __init__(self, number: _Optional[int] = ..., count: _Optional[int] = ..., host: _Optional[str] = ..., port: _Optional[int] = ..., server_key: _Optional[bytes] = ..., credential: _Optional[bytes] = ...) -> None: ...

class Route(_message.Message):
    __slots__ = ("topic", "host", "port", "server_key", "credential")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    SERVER_KEY_FIELD_NUMBER: _ClassVar[int]
    CREDENTIAL_FIELD_NUMBER: _ClassVar[int]
    topic: str
    host: str
    port: int
    server_key: bytes
    credential: bytes
    def __init__(self, topic: _Optional[str] = ..., host: _Optional[str] = ..., port: _Optional[int] = ..., server_key: _Optional[bytes] = ..., credential: _Optional[bytes] = ...) -> None: ...

class Refuse(_message.Message):
    __slots__ = ("topic", "epoch", "sequence", "durable", "reason")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    DURABLE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    topic: str
    epoch: int
    sequence: int
    durable: bool
    reason: int
    def __init__(self, topic: _Optional[str] = ..., epoch: _Optional[int] = ..., sequence: _Optional[int] = ..., durable: _Optional[bool] = ..., reason: _Optional[int] = ...) -> None: ...

class Gap(_message.Message):
    __slots__ = ("topic", "broker", "missed", "offset", "answer", "has_more")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    BROKER_FIELD_NUMBER: _ClassVar[int]
    MISSED_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    HAS_MORE_FIELD_NUMBER: _ClassVar[int]
    topic: str
    broker: str
    missed: int
    offset: int
    answer: bool
    has_more: bool
    def __init__(self, topic: _Optional[str] = ..., broker: _Optional[str] = ..., missed: _Optional[int] = ..., offset: _Optional[int] = ..., answer: _Optional[bool] = ..., has_more: _Optional[bool] = ...) -> None: ...

class Resume(_message.Message):
    __slots__ = ("topic", "broker", "since")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    BROKER_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    topic: str
    broker: str
    since: int
    def __init__(self, topic: _Optional[str] = ..., broker: _Optional[str] = ..., since: _Optional[int] = ...) -> None: ...

class Prove(_message.Message):
    __slots__ = ("server_key", "nonce")
    SERVER_KEY_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    server_key: bytes
    nonce: bytes
    def __init__(self, server_key: _Optional[bytes] = ..., nonce: _Optional[bytes] = ...) -> None: ...

class Proof(_message.Message):
    __slots__ = ("server_key", "nonce", "tag")
    SERVER_KEY_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    TAG_FIELD_NUMBER: _ClassVar[int]
    server_key: bytes
    nonce: bytes
    tag: bytes
    def __init__(self, server_key: _Optional[bytes] = ..., nonce: _Optional[bytes] = ..., tag: _Optional[bytes] = ...) -> None: ...

class Revoked(_message.Message):
    __slots__ = ("document", "signer")
    DOCUMENT_FIELD_NUMBER: _ClassVar[int]
    SIGNER_FIELD_NUMBER: _ClassVar[int]
    document: bytes
    signer: bytes
    def __init__(self, document: _Optional[bytes] = ..., signer: _Optional[bytes] = ...) -> None: ...

class GroupKey(_message.Message):
    __slots__ = ("host", "port", "key_id", "key", "verifier", "slot", "first", "spread_ms", "beacon_ms")
    HOST_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    KEY_ID_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    VERIFIER_FIELD_NUMBER: _ClassVar[int]
    SLOT_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    SPREAD_MS_FIELD_NUMBER: _ClassVar[int]
    BEACON_MS_FIELD_NUMBER: _ClassVar[int]
    host: str
    port: int
    key_id: int
    key: bytes
    verifier: bytes
    slot: int
    first: int
    spread_ms: int
    beacon_ms: int
    def __init__(self, host: _Optional[str] = ..., port: _Optional[int] = ..., key_id: _Optional[int] = ..., key: _Optional[bytes] = ..., verifier: _Optional[bytes] = ..., slot: _Optional[int] = ..., first: _Optional[int] = ..., spread_ms: _Optional[int] = ..., beacon_ms: _Optional[int] = ...) -> None: ...

class GroupReceived(_message.Message):
    __slots__ = ("key_id", "highest", "bitmap", "all_below")
    KEY_ID_FIELD_NUMBER: _ClassVar[int]
    HIGHEST_FIELD_NUMBER: _ClassVar[int]
    BITMAP_FIELD_NUMBER: _ClassVar[int]
    ALL_BELOW_FIELD_NUMBER: _ClassVar[int]
    key_id: int
    highest: int
    bitmap: int
    all_below: int
    def __init__(self, key_id: _Optional[int] = ..., highest: _Optional[int] = ..., bitmap: _Optional[int] = ..., all_below: _Optional[int] = ...) -> None: ...
