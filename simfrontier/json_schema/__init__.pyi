from .documents import (
    SCHEMAS as SCHEMAS,
    file_name as file_name,
    json_schema as json_schema,
    schema_text as schema_text,
)
