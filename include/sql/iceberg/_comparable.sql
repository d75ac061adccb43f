{{ column | comparable(of) }}
