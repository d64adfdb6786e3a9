from .forecast import Predicted as Predicted, predict as predict
from .job import Job as Job, Unread as Unread, job_of as job_of
from .table import Run as Run, is_of_runs as is_of_runs, read_runs as read_runs
